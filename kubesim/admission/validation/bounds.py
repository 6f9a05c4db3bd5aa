"""The rules of quotas and limit ranges that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from kubesim.admission.validation.resources import container_name_errors, is_extended
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
PARTS_OF_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


@check
def hard(quantities: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a quota allows, by names that mean something."""
    for name, value in sorted(quantities.items()):
        yield from _hard_errors(name, value, f"{where}[{name}]")


def _hard_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    yield from _name_errors(name.removeprefix("requests.") if "hugepages-" in name else name, path)
    if "/" not in name and name not in STANDARD and not name.removeprefix("requests.").startswith("hugepages-"):
        yield invalid_value(path, name, "must be a standard resource for quota")
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
            asked = container_name_errors if kind in ("Pod", "Container") else _name_errors
            yield from asked(name, f"{path}.{part}[{name}]")


def _name_errors(name: str, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a resource."""
    wrong = key_errors(name)
    yield from (invalid_value(path, name, why) for why in wrong)
    if not wrong and "/" not in name and name not in (*STANDARD, "storage") and not name.startswith("hugepages-"):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")


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
