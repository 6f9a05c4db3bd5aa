"""The rules of the kinds that have only a few."""

from __future__ import annotations

import re

from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.pods import EFFECTS, PORT_RANGE
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj

KEY = re.compile(r"[-._a-zA-Z0-9]+")
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
MAX_KEY = 253
FROZEN = "field is immutable when `immutable` is set"
SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def data_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with the keys of a ConfigMap or a Secret."""
    keys = [(field, key) for field in ("data", "binaryData") for key in obj.get(field, {})]
    errors = [invalid_value(f"{field}[{key}]", key, why) for field, key in keys for why in _key_errors(key)]
    twice = obj.get("data", {}).keys() & obj.get("binaryData", {}).keys()
    return errors + [invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData") for key in twice]


def _key_errors(key: str) -> list[str]:
    """Return what keeps a key from being the name of a file."""
    errors = ["must be no more than 253 bytes"] if len(key) > MAX_KEY else []
    if not KEY.fullmatch(key):
        errors.append(KEY_RULE)
    if key in (".", ".."):
        return [*errors, f"must not be '{key}'"]
    return [*errors, "must not start with '..'"] if key.startswith("..") else errors


def frozen_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each change of a ConfigMap or Secret that is marked immutable."""
    if not old.get("immutable"):
        return []
    fields = ("immutable", "data", "binaryData")
    return [forbidden_field(name, FROZEN) for name in fields if old.get(name) != new.get(name)]


def service_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a Service."""
    spec, errors = obj.get("spec", {}), []
    ports = spec.get("ports", [])
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        errors.append(required("spec.ports"))
    for at, port in enumerate(ports):
        path, number, target = f"spec.ports[{at}]", port.get("port", 0), port.get("targetPort", 0)
        if len(ports) > 1 and not port.get("name"):
            errors.append(required(f"{path}.name"))
        if not 0 < number < 65536:
            errors.append(invalid_value(f"{path}.port", number, PORT_RANGE))
        if isinstance(target, int) and not 0 < target < 65536:
            errors.append(invalid_value(f"{path}.targetPort", target, PORT_RANGE))
    if spec.get("type") not in SERVICE_TYPES:
        errors.append(unsupported("spec.type", spec.get("type", ""), SERVICE_TYPES))
    return errors


def service_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A service keeps its address."""
    before, after = old["spec"], new["spec"]
    if "ExternalName" in (before.get("type"), after.get("type")) or not before.get("clusterIP"):
        return []
    if before["clusterIP"] == after.get("clusterIP"):
        return []
    return [invalid_value("spec.clusterIPs[0]", [after.get("clusterIP", "")], "may not change once set")]


def node_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A node keeps the range of its pods' addresses."""
    before, after = old["spec"].get("podCIDR"), new["spec"].get("podCIDR")
    why = 'node updates may not change podCIDR except from "" to valid'
    return [forbidden_field("spec.podCIDRs", why)] if before and before != after else []


def priority_class_errors(obj: Obj) -> list[FieldError]:
    """Names that begin with system- are the system's own."""
    name = obj["metadata"].get("name", "")
    if not name.startswith("system-") or name in SYSTEM_CLASSES:
        return []
    why = "priority class names with 'system-' prefix are reserved for system use only. error: {} is not a known"
    return [forbidden_field("metadata.name", f"{why.format(name)} system priority class")]


def event_errors(obj: Obj) -> list[FieldError]:
    """An event lies in the namespace of what it speaks of."""
    namespace = obj.get("involvedObject", {}).get("namespace", "")
    if namespace in ("", obj["metadata"].get("namespace")):
        return []
    return [invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]


def node_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a node's taints."""
    errors = []
    for at, taint in enumerate(obj.get("spec", {}).get("taints", ())):
        if not taint.get("key"):
            errors.append(required(f"spec.taints[{at}].key"))
        if taint.get("effect") not in EFFECTS:
            errors.append(unsupported(f"spec.taints[{at}].effect", taint.get("effect", ""), EFFECTS))
    return errors


def role_errors(obj: Obj) -> list[FieldError]:
    """Every rule has verbs, and speaks either of resources or of paths."""
    errors = []
    for at, rule in enumerate(obj.get("rules") or ()):
        path = f"rules[{at}]"
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if obj["kind"] == "Role":
                why = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why))
            continue
        if not rule.get("apiGroups"):
            errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def binding_errors(obj: Obj) -> list[FieldError]:
    """A binding names a role and subjects of known kinds."""
    role, errors = obj.get("roleRef", {}), []
    kinds = ("ClusterRole",) if obj["kind"] == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if role.get("kind") not in kinds:
        errors.append(unsupported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        errors.append(required("roleRef.name"))
    for at, subject in enumerate(obj.get("subjects", ())):
        errors += _subject_errors(subject, f"subjects[{at}]", namespaced=obj["kind"] == "RoleBinding")
    return errors


def _subject_errors(subject: Obj, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = [] if subject.get("name") else [required(f"{path}.name")]
    match subject.get("kind"):
        case "ServiceAccount":
            if subject.get("name") and (wrong := dns_errors(subject["name"], "subdomain")):
                errors += [invalid_value(f"{path}.name", subject["name"], why) for why in wrong]
            if not subject.get("namespace") and not namespaced:
                errors.append(required(f"{path}.namespace"))
        case "User" | "Group":
            pass
        case other:
            errors.append(unsupported(f"{path}.kind", other or "", ("ServiceAccount", "User", "Group")))
    return errors
