"""The cells of storage, networking, certificates, admission and autoscaling; texts as upstream's."""

from __future__ import annotations

from datetime import datetime

from kubesim.errors import Obj
from kubesim.schema.cells import NONE
from kubesim.schema.paths import dig, first

ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ADDRESS_WIDTH = 16
SHOWN_METRICS = 2
SHOWN_HOSTS = 3


def access_modes(modes: list[str] | None, now: datetime) -> str:
    """Return ``RWO,RWX``."""
    return ",".join(short for mode, short in ACCESS.items() if mode in (modes or ()))


def volume_phase(obj: Obj, now: datetime) -> str:
    """Return a volume's or claim's phase, or that it is going."""
    return "Terminating" if dig(obj, "metadata.deletionTimestamp") else str(dig(obj, "status.phase") or "")


def claim(volume: Obj, now: datetime) -> str:
    """Return ``ns/name`` of the claim that a volume is bound to."""
    found = dig(volume, "spec.claimRef")
    return f"{found.get('namespace', '')}/{found.get('name', '')}" if found else ""


def storage_class(obj: Obj, now: datetime) -> str:
    """Return the class of a volume or claim; the old annotation wins."""
    notes = dig(obj, "metadata.annotations") or {}
    return str(notes.get(CLASS) or dig(obj, "spec.storageClassName") or "")


def bound_capacity(obj: Obj, now: datetime) -> str:
    """Return the size of a claim's volume."""
    return str(dig(obj, "status.capacity.storage") or "0") if dig(obj, "spec.volumeName") else ""


def bound_modes(obj: Obj, now: datetime) -> str:
    """Return the access modes of a claim's volume."""
    return access_modes(dig(obj, "status.accessModes"), now) if dig(obj, "spec.volumeName") else ""


def class_name(obj: Obj, now: datetime) -> str:
    """Return a storage class' name, marked where it is the default."""
    marked = (dig(obj, "metadata.annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{obj['metadata']['name']}{' (default)' if marked else ''}"


def backing_service(service: Obj, now: datetime) -> str:
    """Return the service behind an APIService; what the API server serves itself is Local."""
    found = dig(service, "spec.service")
    return f"{found['namespace']}/{found['name']}" if found else "Local"


def availability(service: Obj, now: datetime) -> str:
    """Return whether an APIService answers, and why not."""
    found = first(service, "status.conditions[type=Available]")
    if found is None:
        return "Unknown"
    return str(found["status"]) if found["status"] == "True" else f"{found['status']} ({found['reason']})"


def token_requests(driver: Obj, now: datetime) -> str:
    """Return the audiences of a CSI driver's tokens."""
    asked = dig(driver, "spec.tokenRequests")
    return "<unset>" if asked is None else ",".join(item.get("audience", "") for item in asked)


def hosts(ingress: Obj, now: datetime) -> str:
    """Return an ingress' hosts: three, then how many more rules."""
    rules = dig(ingress, "spec.rules") or []
    found = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(rules) - SHOWN_HOSTS} more..." if len(found[:SHOWN_HOSTS]) == SHOWN_HOSTS < len(rules) else ""
    return (",".join(found[:SHOWN_HOSTS]) + more) or "*"


def ingress_address(ingress: Obj, now: datetime) -> str:
    """Return the addresses of an ingress' load balancer, cut as upstream cuts them."""
    found = {item.get("ip") or item.get("hostname") for item in dig(ingress, "status.loadBalancer.ingress") or ()}
    text = ",".join(sorted(address for address in found if address))
    return text if len(text) <= ADDRESS_WIDTH else f"{text[: ADDRESS_WIDTH - 3]}..."


def class_parameters(ingress_class: Obj, now: datetime) -> str:
    """Return ``Kind.group/name``."""
    found = dig(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def parent(address: Obj, now: datetime) -> str:
    """Return what an IPAddress belongs to: ``services/ns/name``."""
    found = dig(address, "spec.parentRef")
    if not found:
        return NONE
    group = f".{found['group']}" if found.get("group") else ""
    parts = (f"{found.get('resource', '')}{group}".lower(), found.get("namespace"), found.get("name", ""))
    return "/".join(part for part in parts if part)


def csr_condition(csr: Obj, now: datetime) -> str:
    """Return ``Approved,Issued``."""
    types = {condition.get("type") for condition in dig(csr, "status.conditions") or ()}
    word = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    failed = ",Failed" if "Failed" in types else ""
    return word + failed + (",Issued" if dig(csr, "status.certificate") else "")


def claim_state(claim: Obj, now: datetime) -> str:
    """Return ``allocated,reserved``."""
    going = ["deleted"] if dig(claim, "metadata.deletionTimestamp") else []
    if not dig(claim, "status.allocation"):
        return ",".join(going or ["pending"])
    return ",".join([*going, "allocated", *(["reserved"] if dig(claim, "status.reservedFor") else [])])


def revision_owner(revision: Obj, now: datetime) -> str:
    """Return ``statefulset.apps/web``."""
    owners = dig(revision, "metadata.ownerReferences") or ()
    owner = next((item for item in owners if item.get("controller")), None)
    if owner is None:
        return NONE
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return f"{owner.get('kind', '').lower()}{'.' + group if group else ''}/{owner.get('name', '')}"


def ingress_ports(ingress: Obj, now: datetime) -> str:
    """Return the ports on which an ingress listens."""
    return "80, 443" if dig(ingress, "spec.tls") else "80"


def metrics(autoscaler: Obj, now: datetime) -> str:
    """Return ``cpu: 12%/80%``: what is measured and what is aimed at, two metrics at most."""
    specs, found = dig(autoscaler, "spec.metrics") or [], dig(autoscaler, "status.currentMetrics") or []
    if not specs:
        return NONE
    texts = [_metric(spec, found[at] if at < len(found) else {}) for at, spec in enumerate(specs)]
    more = f" + {len(texts) - SHOWN_METRICS} more..." if len(texts) > SHOWN_METRICS else ""
    return ", ".join(texts[:SHOWN_METRICS]) + more


def _metric(spec: Obj, found: Obj) -> str:
    kind = spec.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source, current = spec.get(field), (found.get(field) or {}).get("current") or {}
    if source is None:
        return "<unknown type>"
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        return f"{source.get('name', '')}: {_usage(target, current)}"
    if kind == "Pods" or target.get("averageValue") is not None:
        suffix = "" if kind == "Pods" else " (avg)"
        return f"{current.get('averageValue', '<unknown>')}/{target.get('averageValue', '0')}{suffix}"
    return f"{current.get('value', '<unknown>')}/{target.get('value', '0')}"


def _usage(target: Obj, current: Obj) -> str:
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', '<unknown>')}/{target['averageValue']}"
    wanted, now = target.get("averageUtilization"), current.get("averageUtilization")
    return f"{'<unknown>' if now is None else f'{now}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"


def param_kind(policy: Obj, now: datetime) -> str:
    """Return ``v1/ConfigMap``."""
    found = dig(policy, "spec.paramKind")
    return f"{found.get('apiVersion', '')}/{found.get('kind', '')}" if found else "<unset>"


def param_ref(binding: Obj, now: datetime) -> str:
    """Return ``ns/name`` of a binding's parameters."""
    found = dig(binding, "spec.paramRef") or {}
    return f"{found.get('namespace') or '*'}/{found['name']}" if found.get("name") else "<unset>"
