"""Resources that pods ask for (names, amounts, claims of devices), and their bounds: quotas, limits."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.prepare import HUGE
from kubesim.admission.validation.rules import Place, check
from kubesim.api.quantity import parse
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.errors import Obj

STANDARD = ("cpu", "memory", "ephemeral-storage")
PARTS = tuple(f"{part}.{name}" for part in ("requests", "limits") for name in STANDARD)
COUNTED = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
KNOWN = frozenset((*STANDARD, *PARTS, *COUNTED, "storage", "requests.storage"))
NATIVE = "kubernetes.io/"


@check
def resources(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The requests and limits of a container."""
    if value:
        yield from _requirements(value, where)


def _requirements(value: Obj, where: str) -> Iterator[FieldError]:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name, quantity in sorted(limits.items()):
        yield from _quantity_errors(name, quantity, f"{where}.limits[{name}]")
    for name, quantity in sorted(requests.items()):
        yield from _quantity_errors(name, quantity, f"{where}.requests[{name}]")
        yield from _pair_errors(name, quantity, limits.get(name), where)
    names = {*limits, *requests}
    if not names & {"cpu", "memory"} and any(name.startswith(HUGE) for name in names):
        yield forbidden_field(where, "HugePages require cpu or memory")


def _quantity_errors(name: str, value: str, where: str) -> Iterator[FieldError]:
    if name not in STANDARD:
        yield from container_name_errors(name, where)
    yield from amount_errors(name, value, where)


def amount_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with how much there is of something."""
    if parse(value) < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if (name in COUNTED or is_extended(name)) and parse(value).denominator != 1:
        yield invalid_value(path, value, "must be an integer")


def name_errors(name: str, where: str) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a resource: it is known, or has a domain."""
    wrong = key_errors(name)
    yield from (invalid_value(where, name, why) for why in wrong)
    if not wrong and "/" not in name and name not in KNOWN and not name.removeprefix("requests.").startswith(HUGE):
        yield invalid_value(where, name, "must be a standard resource type or fully qualified")


def container_name_errors(name: str, where: str) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a resource that a container is to have."""
    yield from name_errors(name, where)
    if "/" not in name:
        if name not in STANDARD and not name.startswith(HUGE):
            yield invalid_value(where, name, "must be a standard resource for containers")
    elif NATIVE not in name and not is_extended(name):
        yield invalid_value(where, name, "doesn't follow extended resource name standard")


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended one, such as nvidia.com/gpu."""
    if "/" not in name or NATIVE in name or name.startswith("requests."):
        return False
    return not key_errors(f"requests.{name}")


def _pair_errors(name: str, request: str, limit: str | None, path: str) -> Iterator[FieldError]:
    overcommitted = ("/" not in name or NATIVE in name) and not name.startswith(HUGE)
    if limit is None:
        if not overcommitted:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif request != limit and not overcommitted and parse(request) != parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif request != limit and parse(request) > parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
    *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
PARTS_OF_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


@check
def hard(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The amounts of a quota, by names that mean something."""
    for name, value in sorted(quantities.items()):
        yield from _hard_errors(name, value, f"{where}[{name}]")


def _hard_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    yield from name_errors(name.removeprefix("requests.") if "hugepages-" in name else name, path)
    if (
        "/" not in name
        and name not in KNOWN - {"storage"}
        and not name.removeprefix("requests.").startswith("hugepages-")
    ):
        yield invalid_value(path, name, "must be a standard resource for quota")
    yield from amount_errors(name, value, path)


@check
def scopes(values: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The scopes of a quota, which go together."""
    if any(scope not in SCOPES for scope in values):
        yield invalid_value(where, values, "unsupported scope")
    elif any(pair <= set(values) for pair in OPPOSITES):
        yield invalid_value(where, values, "conflicting scopes")
    elif "BestEffort" in values and set(place.value["spec"].get("hard") or ()) - {"pods"}:
        yield invalid_value(where, values, "unsupported scope applied to resource")


def quota_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """The scopes of a quota stay."""
    before, after = (obj.get("spec", {}).get("scopes") or [] for obj in (old, new))
    return [invalid_value("spec.scopes", after, "field is immutable")] if set(before) != set(after) else []


@check
def limits(items: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The items of a limit range, one of each type."""
    known: set[str] = set()
    for at, item in enumerate(items):
        path, kind = f"{where}[{at}]", item.get("type", "")
        yield from _type_errors(kind, f"{path}.type")
        if kind in known:
            yield duplicate(f"{path}.type", kind)
        known.add(kind)
        yield from _bounded_errors(item, kind, path)
        bounds = {part: item.get(part) or {} for part in PARTS_OF_LIMITS}
        for name in sorted({name for part in bounds.values() for name in part}):
            yield from _order_errors({part: bounds[part].get(name) for part in bounds}, name, path)


def _type_errors(kind: str, path: str) -> Iterator[FieldError]:
    wrong = key_errors(kind)
    yield from (invalid_value(path, kind, why) for why in wrong)
    if not wrong and kind not in LIMIT_TYPES and "/" not in kind:
        yield invalid_value(path, kind, "must be a standard limit type or fully qualified")


def _bounded_errors(item: Obj, kind: str, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with what is bounded."""
    for part in PARTS_OF_LIMITS:
        if kind == "Pod" and part.startswith("default"):
            if item.get(part):
                yield forbidden_field(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            continue
        for name in item.get(part) or {}:
            asked = container_name_errors if kind in ("Pod", "Container") else name_errors
            yield from asked(name, f"{path}.{part}[{name}]")


def _order_errors(bounds: Obj, name: str, path: str) -> Iterator[FieldError]:
    """Least, defaults and most of a resource come in this order."""
    high, low, usual, asked = (bounds[part] for part in PARTS_OF_LIMITS[:4])
    pairs = (
        ("min", low, low, high, "min value {} is greater than max value {}"),
        ("defaultRequest", asked, low, asked, "min value {} is greater than default request value {}"),
        ("defaultRequest", asked, asked, high, "default request value {} is greater than max value {}"),
        ("defaultRequest", asked, asked, usual, "default request value {} is greater than default limit value {}"),
        ("default", low, low, usual, "min value {} is greater than default value {}"),
        ("default", high, usual, high, "default value {} is greater than max value {}"),
    )
    for field, shown, less, more, text in pairs:
        if less is not None and more is not None and parse(less) > parse(more):
            yield invalid_value(f"{path}.{field}[{name}]", shown, text.format(less, more))
    if is_extended(name) and usual is not None and asked is not None and parse(usual) != parse(asked):
        text = f"default value {usual} must equal to defaultRequest value {asked} in {name}"
        yield invalid_value(f"{path}.defaultRequest[{name}]", asked, text)
