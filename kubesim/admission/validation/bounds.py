"""The rules of quotas, limit ranges, priority classes, and what services have beside ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from kubesim.admission.validation.metadata import label_errors
from kubesim.admission.validation.rules import all_errors, need, one_of
from kubesim.api.quantity import parse
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value
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
    return errors


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
    errors = []
    for at, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path = f"spec.limits[{at}]"
        if item.get("type") not in LIMIT_TYPES and "/" not in item.get("type", ""):
            why = "must be a standard limit type or fully qualified"
            errors.append(invalid_value(f"{path}.type", item.get("type", ""), why))
        errors += _order_errors(item, path)
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
    elif address and address != "None" and not _in_range(address):
        why = f"failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of "
        errors.append(invalid_value("spec.clusterIPs", [address], f"{why}valid IPs is {SERVICE_RANGE}"))
    return [*errors, *_port_errors(spec.get("ports") or [], kind)]


def _in_range(address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in SERVICE_RANGE
    except ValueError:
        return False


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
