"""The columns of storage, networking, certificates, admission, autoscaling and cron jobs; texts as upstream's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubesim.api.durations import human, since
from kubesim.errors import Obj
from kubesim.schema.cells import Cell, Value, count, dig, label_selector, or_none, or_unset
from kubesim.schema.columns import AGE, NAME, Column, kind_columns

ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ADDRESS_WIDTH = 16
SHOWN_METRICS = 2
SHOWN_HOSTS = 3


def within(path: str, value: Callable[[Obj, datetime], Cell]) -> Value:
    """Return a value that is read from what lies at ``path``."""
    return lambda obj, now: value(dig(obj, path) or {}, now)


def joined(path: str, none: str = "") -> Value:
    """Return a list of texts, with commas."""
    return lambda obj, now: ",".join(dig(obj, path) or ()) or none


def flag(path: str, default: bool = False) -> Value:
    """Return a boolean that may be missing."""
    return lambda obj, now: default if dig(obj, path) is None else bool(dig(obj, path))


def access_modes(path: str) -> Value:
    """Return ``RWO,RWX``."""
    return lambda obj, now: ",".join(short for mode, short in ACCESS.items() if mode in (dig(obj, path) or ()))


def phase(obj: Obj, now: datetime) -> str:
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


def bound(path: str) -> Value:
    """Return a path of a claim that means something only where the claim has a volume."""
    return lambda obj, now: str(dig(obj, path) or "0") if dig(obj, "spec.volumeName") else ""


def bound_modes(obj: Obj, now: datetime) -> Cell:
    """Return the access modes of a claim's volume."""
    value = access_modes("status.accessModes")
    return value(obj, now) if callable(value) and dig(obj, "spec.volumeName") else ""


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
    found = next((c for c in dig(service, "status.conditions") or () if c["type"] == "Available"), None)
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
        return "<none>"
    group = f".{found['apiGroup']}" if found.get("apiGroup") is not None else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def parent(address: Obj, now: datetime) -> str:
    """Return what an IPAddress belongs to: ``services/ns/name``."""
    found = dig(address, "spec.parentRef")
    if not found:
        return "<none>"
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


def csr_duration(csr: Obj, now: datetime) -> str:
    """Return how long a certificate was asked for."""
    seconds = dig(csr, "spec.expirationSeconds")
    return "<none>" if seconds is None else human(seconds)


def revision_owner(revision: Obj, now: datetime) -> str:
    """Return ``statefulset.apps/web``."""
    owners = dig(revision, "metadata.ownerReferences") or ()
    owner = next((item for item in owners if item.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner.get("apiVersion", "").rpartition("/")[0]
    return f"{owner.get('kind', '').lower()}{'.' + group if group else ''}/{owner.get('name', '')}"


def last_schedule(cron: Obj, now: datetime) -> str:
    """Return how long ago a cron job last started a job."""
    at = dig(cron, "status.lastScheduleTime")
    return since(at, now) if at else "<none>"


def suspended(cron: Obj, now: datetime) -> str:
    """Return ``True`` or ``False``."""
    found = dig(cron, "spec.suspend")
    return "<unset>" if found is None else str(bool(found))


def _template(path: str, field: str) -> Value:
    return lambda obj, now: ",".join(str(c.get(field, "")) for c in dig(obj, path) or ())


def metrics(autoscaler: Obj, now: datetime) -> str:
    """Return ``cpu: 12%/80%``: what is measured and what is aimed at, two metrics at most."""
    specs, found = dig(autoscaler, "spec.metrics") or [], dig(autoscaler, "status.currentMetrics") or []
    if not specs:
        return "<none>"
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


def reference(autoscaler: Obj, now: datetime) -> str:
    """Return ``Deployment/web``."""
    found = dig(autoscaler, "spec.scaleTargetRef") or {}
    return f"{found.get('kind', '')}/{found.get('name', '')}"


def dangling(schema: Obj, now: datetime) -> str:
    """Return whether a flow schema's priority level is missing."""
    conditions = dig(schema, "status.conditions") or ()
    return next((str(c.get("status")) for c in conditions if c.get("type") == "Dangling"), "?")


def param_kind(policy: Obj, now: datetime) -> str:
    """Return ``v1/ConfigMap``."""
    found = dig(policy, "spec.paramKind")
    return f"{found.get('apiVersion', '')}/{found.get('kind', '')}" if found else "<unset>"


def param_ref(binding: Obj, now: datetime) -> str:
    """Return ``ns/name`` of a binding's parameters."""
    found = dig(binding, "spec.paramRef") or {}
    return f"{found.get('namespace') or '*'}/{found['name']}" if found.get("name") else "<unset>"


def pod_labels(template: Obj, now: datetime) -> str:
    """Return the labels of a PodTemplate's pods."""
    pairs = dig(template, "template.metadata.labels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(pairs.items())) or "<none>"


def pod_selector(policy: Obj, now: datetime) -> str:
    """Return whom a NetworkPolicy is for."""
    return label_selector({"spec": {"selector": dig(policy, "spec.podSelector") or {}}})


WEBHOOKS = kind_columns(Column("Webhooks", count("webhooks"), type="integer"))
LIMITED = "spec.limited.nominalConcurrencyShares"
QUEUES = "spec.limited.limitResponse.queuing"

PLATFORM: dict[str, tuple[Column, ...]] = {
    "persistentvolumes": kind_columns(
        Column("Capacity", lambda pv, now: str(dig(pv, "spec.capacity.storage") or "0")),
        Column("Access Modes", access_modes("spec.accessModes")),
        Column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", phase),
        Column("Claim", claim),
        Column("StorageClass", storage_class),
        Column("VolumeAttributesClass", or_unset("spec.volumeAttributesClassName")),
        Column("Reason", "status.reason"),
        wide=(Column("VolumeMode", or_unset("spec.volumeMode"), wide=True),),
    ),
    "persistentvolumeclaims": kind_columns(
        Column("Status", phase),
        Column("Volume", "spec.volumeName"),
        Column("Capacity", bound("status.capacity.storage")),
        Column("Access Modes", bound_modes),
        Column("StorageClass", storage_class),
        Column("VolumeAttributesClass", or_unset("spec.volumeAttributesClassName")),
        wide=(Column("VolumeMode", or_unset("spec.volumeMode"), wide=True),),
    ),
    "storageclasses.storage.k8s.io": (
        Column("Name", class_name, format="name"),
        Column("Provisioner", "provisioner"),
        Column("ReclaimPolicy", or_none("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", or_none("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", flag("allowVolumeExpansion")),
        AGE,
    ),
    "volumeattachments.storage.k8s.io": kind_columns(
        Column("Attacher", "spec.attacher", format="name"),
        Column("PV", "spec.source.persistentVolumeName"),
        Column("Node", "spec.nodeName"),
        Column("Attached", flag("status.attached"), type="boolean"),
    ),
    "csidrivers.storage.k8s.io": kind_columns(
        Column("AttachRequired", flag("spec.attachRequired", default=True), type="boolean"),
        Column("PodInfoOnMount", flag("spec.podInfoOnMount"), type="boolean"),
        Column("StorageCapacity", flag("spec.storageCapacity"), type="boolean"),
        Column("TokenRequests", token_requests),
        Column("RequiresRepublish", flag("spec.requiresRepublish"), type="boolean"),
        Column("Modes", joined("spec.volumeLifecycleModes", "<none>")),
    ),
    "csinodes.storage.k8s.io": kind_columns(Column("Drivers", count("spec.drivers"), type="integer")),
    "volumeattributesclasses.storage.k8s.io": kind_columns(Column("DriverName", "driverName")),
    "ingresses.networking.k8s.io": kind_columns(
        Column("Class", or_none("spec.ingressClassName")),
        Column("Hosts", hosts),
        Column("Address", ingress_address),
        Column("Ports", lambda ingress, now: "80, 443" if dig(ingress, "spec.tls") else "80"),
    ),
    "ingressclasses.networking.k8s.io": kind_columns(
        Column("Controller", "spec.controller"), Column("Parameters", class_parameters)
    ),
    "networkpolicies.networking.k8s.io": kind_columns(Column("Pod-Selector", pod_selector)),
    "ipaddresses.networking.k8s.io": (NAME, Column("ParentRef", parent)),
    "servicecidrs.networking.k8s.io": kind_columns(Column("CIDRs", joined("spec.cidrs"))),
    "runtimeclasses.node.k8s.io": kind_columns(Column("Handler", "handler")),
    "apiservices.apiregistration.k8s.io": kind_columns(
        Column("Service", backing_service), Column("Available", availability)
    ),
    "certificatesigningrequests.certificates.k8s.io": (
        NAME,
        AGE,
        Column("SignerName", or_none("spec.signerName")),
        Column("Requestor", "spec.username"),
        Column("RequestedDuration", csr_duration),
        Column("Condition", csr_condition),
    ),
    "controllerrevisions.apps": (
        NAME,
        Column("Controller", revision_owner),
        Column("Revision", "revision", type="integer"),
        AGE,
    ),
    "cronjobs.batch": kind_columns(
        Column("Schedule", "spec.schedule"),
        Column("Timezone", or_none("spec.timeZone")),
        Column("Suspend", suspended, type="boolean"),
        Column("Active", count("status.active"), type="integer"),
        Column("Last Schedule", last_schedule),
        wide=(
            Column("Containers", _template("spec.jobTemplate.spec.template.spec.containers", "name"), wide=True),
            Column("Images", _template("spec.jobTemplate.spec.template.spec.containers", "image"), wide=True),
            Column("Selector", within("spec.jobTemplate", label_selector), wide=True),
        ),
    ),
    "podtemplates": (
        NAME,
        Column("Containers", _template("template.spec.containers", "name")),
        Column("Images", _template("template.spec.containers", "image")),
        Column("Pod Labels", pod_labels),
    ),
    "horizontalpodautoscalers.autoscaling": kind_columns(
        Column("Reference", reference),
        Column("Targets", metrics),
        Column("MinPods", or_unset("spec.minReplicas")),
        Column("MaxPods", "spec.maxReplicas", type="integer"),
        Column("Replicas", "status.currentReplicas", type="integer"),
    ),
    "deviceclasses.resource.k8s.io": (NAME, AGE),
    "resourceclaims.resource.k8s.io": kind_columns(Column("State", claim_state)),
    "resourceclaimtemplates.resource.k8s.io": (NAME, AGE),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WEBHOOKS,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": kind_columns(
        Column("Validations", count("spec.validations"), type="integer"), Column("ParamKind", param_kind)
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": kind_columns(
        Column("PolicyName", "spec.policyName"), Column("ParamRef", param_ref)
    ),
    "flowschemas.flowcontrol.apiserver.k8s.io": (
        *kind_columns(
            Column("PriorityLevel", "spec.priorityLevelConfiguration.name"),
            Column("MatchingPrecedence", "spec.matchingPrecedence", type="integer"),
            Column("DistinguisherMethod", or_none("spec.distinguisherMethod.type")),
        ),
        Column("MissingPL", dangling),
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": kind_columns(
        Column("Type", "spec.type"),
        Column("NominalConcurrencyShares", or_none(LIMITED)),
        Column("Queues", or_none(f"{QUEUES}.queues")),
        Column("HandSize", or_none(f"{QUEUES}.handSize")),
        Column("QueueLengthLimit", or_none(f"{QUEUES}.queueLengthLimit")),
    ),
}
