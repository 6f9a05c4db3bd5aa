"""The rules of quotas, limit ranges, priority classes, and what services have beside ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from kubesim.admission.validation.metadata import label_errors
from kubesim.admission.validation.rules import all_errors, need, one_of
from kubesim.api.quantity import canonical, parse
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
LARGEST_PRIORITY = 1_000_000_000
SERVICE_RANGE = ipaddress.ip_network("10.96.0.0/16")
SERVICE = (
    one_of("spec.ports[].protocol", "SCTP", "TCP", "UDP"),
    one_of("spec.sessionAffinity", "ClientIP", "None"),
)
EXTERNAL = ("NodePort", "LoadBalancer")
ABOVE = " value {} is greater than"
PORT_LETTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"


def quota_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a ResourceQuota."""
    spec = obj.get("spec") or {}
    errors = [error for name, value in sorted((spec.get("hard") or {}).items()) for error in _hard(name, value)]
    scopes = spec.get("scopes") or []
    if any(scope not in SCOPES for scope in scopes):
        errors.append(invalid_value("spec.scopes", scopes, "unsupported scope"))
    elif any(pair <= set(scopes) for pair in OPPOSITES):
        errors.append(invalid_value("spec.scopes", scopes, "conflicting scopes"))
    elif "BestEffort" in scopes and set(spec.get("hard") or ()) - {"pods"}:
        errors.append(invalid_value("spec.scopes", scopes, "unsupported scope applied to resource"))
    for term in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        errors += _term_errors(term, "spec.scopeSelector.matchExpressions")
    return errors


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


def _hard(name: str, value: str) -> Iterator[FieldError]:
    path = f"spec.hard[{name}]"
    if "/" not in name and name not in STANDARD and not name.removeprefix("requests.").startswith("hugepages-"):
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
        yield invalid_value(path, name, "must be a standard resource for quota")
    if parse(value) < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if (name in COUNTED or name.startswith("count/")) and parse(value).denominator != 1:
        yield invalid_value(path, value, "must be an integer")


def limit_range_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a LimitRange."""
    errors: list[FieldError] = []
    known: set[str] = set()
    for at, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{at}]"
        if item.get("type") in known:
            errors.append(duplicate(f"{path}.type", item["type"]))
            continue
        known.add(item.get("type", ""))
        if item.get("type") == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    why = "may not be specified when `type` is 'Pod'"
                    errors.append(forbidden_field(f"{path}.{field}", why))
        if item.get("type") not in LIMIT_TYPES and "/" not in item.get("type", ""):
            why = "must be a standard limit type or fully qualified"
            errors.append(invalid_value(f"{path}.type", item.get("type", ""), why))
        errors += _order_errors(item, path)
        for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
            if parse(ratio) < 1:
                where, shown = f"{path}.maxLimitRequestRatio[{name}]", canonical(ratio)
                errors.append(invalid_value(where, shown, f"ratio {shown} is less than 1"))
    return errors


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


def priority_errors(obj: Obj) -> list[FieldError]:
    """The greatest priorities are the system's own."""
    errors = all_errors((one_of("preemptionPolicy", "PreemptLowerPriority", "Never"),), obj)
    if obj.get("value", 0) > LARGEST_PRIORITY and not obj["metadata"].get("name", "").startswith("system-"):
        why = f"maximum allowed value of a user defined priority is {LARGEST_PRIORITY}"
        errors.append(forbidden_field("value", why))
    return errors


def service_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a service beside its ports' numbers."""
    spec = obj.get("spec") or {}
    errors = [*all_errors(SERVICE, obj), *label_errors(spec.get("selector"), "spec.selector")]
    kind, address = spec.get("type"), spec.get("clusterIP", "")
    if kind == "ExternalName":
        errors += all_errors((need("spec.externalName"),), obj)
    elif spec.get("externalTrafficPolicy") and kind not in EXTERNAL and not spec.get("externalIPs"):
        why = "may only be set for externally-accessible services"
        errors.append(invalid_value("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], why))
    if address == "None" and kind in EXTERNAL:
        errors.append(invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    elif address and address != "None" and not _is_address(address):
        why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        errors.append(invalid_value("spec.clusterIPs[0]", address, why))
    elif address and address != "None" and not _in_range(address):
        why = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of "
        errors.append(invalid_value("spec.clusterIPs", [address], f"{why}valid IPs is {SERVICE_RANGE}"))
    return [*errors, *_port_errors(spec.get("ports") or [], kind)]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _in_range(address: str) -> bool:
    return ipaddress.ip_address(address) in SERVICE_RANGE


def _port_errors(ports: list[Obj], kind: str | None) -> Iterator[FieldError]:
    names: set[str] = set()
    for at, port in enumerate(ports):
        path, target = f"spec.ports[{at}]", port.get("targetPort", 0)
        if port.get("name") and port["name"] in names:
            yield duplicate(f"{path}.name", port["name"])
        names.add(port.get("name", ""))
        if port.get("nodePort") and kind not in EXTERNAL:
            yield forbidden_field(f"{path}.nodePort", f"may not be used when `type` is '{kind}'")
        if isinstance(target, str) and not all(char.isascii() and (char.isdigit() or char.islower() or char == "-")
                                               for char in target):  # fmt: skip
            yield invalid_value(f"{path}.targetPort", target, PORT_LETTERS)
