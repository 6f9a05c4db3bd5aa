"""Resources that pods ask for (names, amounts, claims of devices), and their bounds: quotas, limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from kubesim.admission.prepare import HUGE, together
from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check
from kubesim.api.quantity import QuantityError, canonical, parse
from kubesim.api.selectors import key_errors
from kubesim.api.status import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_field,
    required,
    unsupported,
)
from kubesim.errors import Obj

STANDARD = ("cpu", "memory", "ephemeral-storage")
PARTS = tuple(f"{part}.{name}" for part in ("requests", "limits") for name in STANDARD)
COUNTED = (
    *("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps"),
    *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
)
KNOWN = frozenset((*STANDARD, *PARTS, *COUNTED, "storage", "requests.storage"))
NATIVE = "kubernetes.io/"
OF_PODS = ("cpu", "hugepages-", "memory")
Naming = Callable[[str, str], Iterator[FieldError]]


@check
def resources(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The requests and limits of a container."""
    if value:
        yield from _requirements(value, where, container_name_errors)
        if "claims" in value:
            pod = place.above.value if place.above else {}
            yield from _claims(value["claims"], f"{where}.claims", pod)


@check
def pod_overhead(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The overhead of a pod, beside what it asks for."""
    return _requirements({"limits": value}, where, container_name_errors)


@check
def pod_resources(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The requests of a pod as a whole, which are no less than those of its containers."""
    if (place.value.get("os") or {}).get("name") == "windows":
        yield forbidden_field(where, "may not be set for a windows pod")
        return
    if "claims" in value:
        yield forbidden_field(f"{where}.claims", "claims may not be set for Resources at pod-level")
    yield from _requirements(value, where, _pod_name_errors)
    yield from _claims(value.get("claims") or [], f"{where}.claims", place.value)
    yield from _consistency(value, where, place.value)


def _consistency(value: Obj, where: str, spec: Obj) -> Iterator[FieldError]:
    """Yield where the containers ask for more than the pod."""
    containers = [entry.get("resources") or {} for entry in spec.get("containers") or ()]
    for part, kinds in (("requests", ("",)), ("limits", (HUGE,))):
        whole = value.get(part) or {}
        for name, total in sorted(together(spec, part).items()):
            if name in whole and name.startswith(kinds) and parse(total) > parse(whole[name]):
                why = f"must be greater than or equal to aggregate container {part} of {total}"
                yield invalid_value(f"{where}.{part}[{name}]", whole[name], why)
    for at, own in enumerate(containers):
        for name, limit in sorted((own.get("limits") or {}).items()):
            most = (value.get("limits") or {}).get(name)
            if most is not None and parse(limit) > parse(most):
                why = f"must be less than or equal to pod limits of {most}"
                yield invalid_value(f"{where}.containers[{at}][{name}].limits", limit, why)


def _requirements(value: Obj, where: str, naming: Naming) -> Iterator[FieldError]:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for name, quantity in sorted(limits.items()):
        yield from _quantity_errors(name, quantity, f"{where}.limits[{name}]", naming)
    for name, quantity in sorted(requests.items()):
        path = f"{where}.requests[{name}]"
        yield from _quantity_errors(name, quantity, path, naming, huge=False)
        yield from _pair_errors(name, quantity, limits.get(name), where)
        yield from _page_errors(name, quantity, path)
    names = {*limits, *requests}
    if not names & {"cpu", "memory"} and any(name.startswith(HUGE) for name in names):
        yield forbidden_field(where, "HugePages require cpu or memory")


def _quantity_errors(name: str, value: str, where: str, naming: Naming, *, huge: bool = True) -> Iterator[FieldError]:
    if name not in STANDARD:
        yield from naming(name, where)
    yield from amount_errors(name, value, where)
    if huge:
        yield from _page_errors(name, value, where)


def amount_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with how much there is of something."""
    if parse(value) < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if (name in COUNTED or is_extended(name)) and parse(value).denominator != 1:
        yield invalid_value(path, value, "must be an integer")


def _page_errors(name: str, value: str, where: str) -> Iterator[FieldError]:
    """Yield where huge pages would have to be cut."""
    if not name.startswith(HUGE):
        return
    try:
        page = parse(name.removeprefix(HUGE))
    except QuantityError:
        page = Fraction(0)
    if page <= 0 or parse(value) % page:
        yield invalid_value(where, value, f"{value} is not positive integer multiple of {name}")


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


def _pod_name_errors(name: str, where: str) -> Iterator[FieldError]:
    wrong = list(name_errors(name, where))
    yield from wrong
    if not wrong and not name.startswith(OF_PODS):
        yield unsupported(where, name, OF_PODS)


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


def _claims(claims: list[Obj], where: str, pod: Obj) -> Iterator[FieldError]:
    """Yield what is wrong with the claims of the pod's that a container uses, or one request of them."""
    known = {claim.get("name", "") for claim in pod.get("resourceClaims") or ()} - {""}
    ending = f": {', '.join(sorted(known))}" if known else " which is empty"
    used: set[str] = set()
    in_part: set[str] = set()
    """The claims of which single requests are used."""
    for at, claim in enumerate(claims):
        path, name, request = f"{where}[{at}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield required(path)
            continue
        if name in used:
            yield duplicate(path, name)
        else:
            if request:
                yield from (invalid_value(f"{path}.request", request, why) for why in dns_errors(request))
            whole = f"{name}/{request}" if request else name
            if whole in used or (not request and name in in_part):
                yield duplicate(path, whole)
            used.add(whole)
            in_part |= {name} if request else set()
        if name not in known:
            lost = not_found_field(path, name)
            yield replace(lost, detail=f"{lost.detail}: must be one of the names in pod.spec.resourceClaims{ending}")


@check
def overhead(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The overhead of a runtime; upstream takes it for a container's limits."""
    yield from resources({"limits": quantities}, "overhead", place)


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
        if part == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim":
            yield from _storage_errors(item, path)
        for name in item.get(part) or {}:
            asked = container_name_errors if kind in ("Pod", "Container") else name_errors
            yield from asked(name, f"{path}.{part}[{name}]")


def _storage_errors(item: Obj, path: str) -> Iterator[FieldError]:
    if not any("storage" in (item.get(part) or {}) for part in ("min", "max")):
        yield required(
            f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )


def _order_errors(bounds: Obj, name: str, path: str) -> Iterator[FieldError]:
    """Least, defaults and most of a resource come in this order, and the ratio is one that they allow."""
    high, low, usual, asked, ratio = (bounds[part] for part in PARTS_OF_LIMITS)
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
    if ratio is not None:
        yield from _ratio_errors(ratio, low, high, f"{path}.maxLimitRequestRatio[{name}]")
    if is_extended(name) and usual is not None and asked is not None and parse(usual) != parse(asked):
        text = f"default value {usual} must equal to defaultRequest value {asked} in {name}"
        yield invalid_value(f"{path}.defaultRequest[{name}]", asked, text)


def _ratio_errors(ratio: str, low: str | None, high: str | None, path: str) -> Iterator[FieldError]:
    shown = canonical(ratio)
    if parse(ratio) < 1:
        yield invalid_value(path, shown, f"ratio {shown} is less than 1")
    if low is not None and high is not None:
        most = _share(parse(high), parse(low))
        if parse(ratio) > most:
            yield invalid_value(path, shown, f"ratio {shown} is greater than max/min = {_go(most)}")


def _share(high: Fraction, low: Fraction) -> float:
    """Return a quotient as floating-point numbers have it, also by nothing."""
    if low:
        return float(high / low)
    return math.copysign(math.inf, high) if high else math.nan


def _go(number: float) -> str:
    """Return a number as Go's ``%f`` prints it."""
    if math.isfinite(number):
        return f"{number:f}"
    return "NaN" if math.isnan(number) else f"{number:+}".replace("inf", "Inf")
