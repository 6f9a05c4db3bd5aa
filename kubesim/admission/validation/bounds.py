"""The rules of quotas and limit ranges that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.pods import is_extended
from kubesim.admission.validation.rules import Place, check
from kubesim.api.quantity import canonical, parse
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required
from kubesim.errors import Obj

COUNTED = (
    *("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets"),
    *("services", "services.loadbalancers", "services.nodeports"),
)
COMPUTE = ("cpu", "memory", "ephemeral-storage")
PARTS = tuple(f"{part}.{name}" for part in ("requests", "limits") for name in COMPUTE)
STANDARD = (*COUNTED, *COMPUTE, *PARTS, "requests.storage")
SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"),
    *("CrossNamespacePodAffinity", "VolumeAttributesClass"),
)
PLAIN = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


@check
def hard(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a quota allows, by names that mean something."""
    for name, value in sorted(quantities.items()):
        yield from _hard_errors(name, value, f"{where}[{name}]")


def _hard_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    if "/" not in name and name not in STANDARD and not name.removeprefix("requests.").startswith("hugepages-"):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for quota")
    else:
        yield from (invalid_value(path, name, why) for why in key_errors(name))
    yield from amount_errors(name, value, path)


def amount_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with how much there is of something."""
    if parse(value) < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if (name in COUNTED or is_extended(name)) and parse(value).denominator != 1:
        yield invalid_value(path, value, "must be an integer")


@check
def scopes(values: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """The scopes of a quota, which go together."""
    if any(scope not in SCOPES for scope in values):
        yield invalid_value(where, values, "unsupported scope")
    elif any(pair <= set(values) for pair in OPPOSITES):
        yield invalid_value(where, values, "conflicting scopes")
    elif "BestEffort" in values and set(place.value["spec"].get("hard") or ()) - {"pods"}:
        yield invalid_value(where, values, "unsupported scope applied to resource")


@check
def scope_terms(terms: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The terms of a scope selector; upstream does not say which of them is wrong."""
    for term in terms:
        yield from _term_errors(term, where)


def _term_errors(term: Obj, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with one term of a scope selector."""
    scope, operator, values = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
    if scope not in SCOPES:
        yield invalid_value(f"{path}.scopeName", scope, "unsupported scope")
    if scope in PLAIN and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, MUST_EXIST)
    if operator in ("In", "NotIn") and not values:
        why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        yield required(f"{path}.values", why)
    elif operator in ("Exists", "DoesNotExist") and values:
        why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid_value(f"{path}.values", values, why)
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")


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
        if kind in known:
            yield duplicate(f"{path}.type", kind)
            continue
        known.add(kind)
        for field in ("default", "defaultRequest"):
            if kind == "Pod" and item.get(field):
                yield forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        if kind not in LIMIT_TYPES and "/" not in kind:
            yield invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        yield from _order_errors(item, path)
        for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
            if parse(ratio) < 1:
                shown = canonical(ratio)
                yield invalid_value(f"{path}.maxLimitRequestRatio[{name}]", shown, f"ratio {shown} is less than 1")


def _order_errors(item: Obj, path: str) -> Iterator[FieldError]:
    """Least, defaults and most come in this order."""
    parts = {name: item.get(name) or {} for name in ("min", "max", "default", "defaultRequest")}
    for name in sorted({key for part in parts.values() for key in part}):
        low, high, usual, asked = (parts[part].get(name) for part in ("min", "max", "default", "defaultRequest"))
        pairs = (
            ("min", low, low, high, "min value {} is greater than max value {}"),
            ("defaultRequest", asked, low, asked, "min value {} is greater than default request value {}"),
            ("defaultRequest", asked, asked, high, "default request value {} is greater than max value {}"),
            (
                "defaultRequest",
                asked,
                asked,
                usual,
                "default request value {} is greater than default limit value {}",
            ),
            ("default", low, low, usual, "min value {} is greater than default value {}"),
            ("default", usual, usual, high, "default value {} is greater than max value {}"),
        )
        for field, shown, less, more, text in pairs:
            if less is not None and more is not None and parse(less) > parse(more):
                yield invalid_value(f"{path}.{field}[{name}]", shown, text.format(less, more))
