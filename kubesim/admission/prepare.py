"""Strategies of kinds: the fields that they set when an object is created or changed, beyond its defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from kubesim import data
from kubesim.api import status
from kubesim.api.meta import rfc3339
from kubesim.api.quantity import parse, write
from kubesim.errors import Obj
from kubesim.schema.decode import Decoder
from kubesim.schema.defaults import own_labels
from kubesim.schema.paths import dig
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

JOB_LABELS = {
    "controller-uid": "uid",
    "job-name": "name",
    "batch.kubernetes.io/controller-uid": "uid",
    "batch.kubernetes.io/job-name": "name",
}
"""The labels of a job's pods, and the field of its metadata that each repeats."""
GATED: Obj = data.table(__file__, "pods.yaml")["gated"]
WORKLOADS = ("deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps")
TEMPLATES = {
    **dict.fromkeys((*WORKLOADS, "jobs.batch", "replicationcontrollers"), ("spec", "template")),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    "podtemplates": ("template",),
}
"""Paths of the templates of a kind's pods."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
QOS_RESOURCES = ("cpu", "memory")


def create(ops: Operations, kind: Kind, new: Obj) -> None:
    """Complete a new object in place."""
    if kind.has_status and kind.custom is not None:
        new.pop("status", None)
    elif kind.has_status and kind.resource != "nodes":
        new["status"] = empty_status(kind)
    step = ON_CREATE.get(kind.resource)
    if step is not None:
        step(ops, new)


def empty_status(kind: Kind) -> Obj:
    """Return the status of an object of which nobody has reported anything yet."""
    shape = kind.shape
    field = shape.field("status") if shape else None
    return Decoder().object(field.shape, {}) if field is not None and field.shape is not None else {}


def update(ops: Operations, kind: Kind, old: Obj, new: Obj) -> None:
    """Complete a changed object in place."""
    if kind.resource == "namespaces":
        label(new)
        new["spec"] = old.get("spec", {})


def settle(kind: Kind, new: Obj) -> None:
    """Make of a good object what it becomes when it is read again: no labels are left out, a job has its pods'."""
    path = TEMPLATES.get(kind.resource)
    metadata = (dig(new, (*path, "metadata")) or {}) if path else {}
    if metadata.get("labels") == {}:
        del metadata["labels"]
    if kind.resource == "jobs.batch":
        own_labels(new)


def label(new: Obj) -> None:
    """Give a namespace the label of its name."""
    metadata = new["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def namespace(ops: Operations, new: Obj) -> None:
    """A namespace is active, has the label of its name, and is finalized by its controller."""
    kept = new.get("spec", {}).get("finalizers", [])
    new["spec"] = {"finalizers": kept if "kubernetes" in kept else [*kept, "kubernetes"]}
    new["status"] = {"phase": "Active"}
    if new["metadata"].get("name"):
        label(new)


def pod(ops: Operations, new: Obj) -> None:
    """A pod begins Pending with its class of service."""
    _choose_by_own_labels(new)
    if "resources" in new["spec"]:
        fill(new["spec"])
    new["status"] = {"phase": "Pending", "qosClass": qos_class(new["spec"])}
    if new["spec"].get("schedulingGates"):
        new["status"]["conditions"] = [{**GATED, "lastTransitionTime": rfc3339(ops.clock.now())}]


def _choose_by_own_labels(new: Obj) -> None:
    """Write the values of labels by whose keys a pod says near which others it is to be into its selectors."""
    spec, labels = new["spec"], new["metadata"].get("labels") or {}
    terms: list[Obj] = list(spec.get("topologySpreadConstraints") or ())
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(kind) or {}
        terms += (entry.get("podAffinityTerm") or {} for entry in affinity.get(PREFERRED) or ())
        terms += affinity.get(REQUIRED) or ()
    for term in terms:
        selector = term.get("labelSelector")
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
            found = [key for key in term.get(field) or () if key in labels]
            if selector is not None and found:
                added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in found]
                selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def qos_class(spec: Obj) -> str:
    """Return Guaranteed where all requests equal limits for cpu and memory, BestEffort where there are none."""
    holders = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    whole = spec.get("resources")
    resources = [holder.get("resources", {}) for holder in holders] if whole is None else [whole]
    if not any(_compute(entry.get(part)) for entry in resources for part in ("requests", "limits")):
        return "BestEffort"
    return "Guaranteed" if all(map(_guaranteed, resources)) else "Burstable"


def _compute(quantities: Obj | None) -> dict[str, str]:
    return {name: value for name, value in (quantities or {}).items() if name in QOS_RESOURCES and parse(value)}


def _guaranteed(resources: Obj) -> bool:
    limits = _compute(resources.get("limits"))
    return len(limits) == len(QOS_RESOURCES) and _compute(resources.get("requests")) == limits


def job(ops: Operations, new: Obj) -> None:
    """A job selects its pods by its uid, unless it says that it chooses them itself."""
    spec = new["spec"]
    if spec.get("manualSelector") or "template" not in spec:
        return
    metadata = spec["template"].setdefault("metadata", {})
    own = {name: new["metadata"].get(field, "") for name, field in JOB_LABELS.items()}
    labels = new["metadata"].get("labels")
    inherited = labels and labels == metadata.get("labels")
    metadata["labels"] = dict(sorted({**own, **metadata.get("labels", {})}.items()))
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {
        "batch.kubernetes.io/controller-uid": new["metadata"]["uid"],
        **selector.get("matchLabels", {}),
    }
    if inherited:
        new["metadata"]["labels"] = dict(metadata["labels"])


ON_CREATE: dict[str, Callable[[Operations, Obj], None]] = {"namespaces": namespace, "pods": pod, "jobs.batch": job}


HUGE = "hugepages-"
OVERCOMMITTED = ("cpu", "memory")


def fill(spec: Obj) -> None:
    """Complete what a pod asks for as a whole from what its containers ask for."""
    whole = spec.get("resources") or {}
    if not whole.get("limits") and not whole.get("requests"):
        return
    limits, requests = dict(whole.get("limits") or {}), dict(whole.get("requests") or {})
    pages = {name: value for name, value in together(spec, "limits").items() if name.startswith(HUGE)}
    limits = {**{name: value for name, value in pages.items() if name not in requests}, **limits}
    if limits:
        asked = {name: value for name, value in together(spec, "requests").items() if name in OVERCOMMITTED}
        own = {name: value for name, value in limits.items() if name in OVERCOMMITTED or name.startswith(HUGE)}
        requests = {**own, **asked, **requests}
    for part, quantities in (("limits", limits), ("requests", requests)):
        if quantities:
            whole[part] = dict(sorted(quantities.items()))


def together(spec: Obj, part: str) -> dict[str, str]:
    """Return what the containers have at once at most: before the pod has begun, or after."""
    running: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    texts: dict[str, str] = {}
    for name, value, kind in _parts(spec, part):
        texts.setdefault(name, value)
        if kind != "init":
            running[name] = running.get(name, Fraction()) + parse(value)
        beside = parse(value) if kind == "init" else Fraction()
        most[name] = max(most.get(name, Fraction()), running.get(name, Fraction()) + beside)
    return {name: write(total, "binary" if texts[name][-1:] == "i" else "decimal") for name, total in most.items()}


def _parts(spec: Obj, part: str) -> Iterator[tuple[str, str, str]]:
    for entry in spec.get("initContainers") or ():
        kind = "sidecar" if entry.get("restartPolicy") == "Always" else "init"
        yield from ((*item, kind) for item in ((entry.get("resources") or {}).get(part) or {}).items())
    for entry in spec.get("containers") or ():
        yield from ((*item, "main") for item in ((entry.get("resources") or {}).get(part) or {}).items())


def check_namespace(ops: Operations, kind: Kind, new: Obj) -> None:
    """Raise 404 for a namespace that does not exist and 403 for one that is terminating."""
    if not kind.namespaced:
        return
    name = new["metadata"]["namespace"]
    namespaces = ops.registry.by_resource("namespaces")
    namespace = ops.store.get(namespaces, "", name)
    if namespace is None:
        raise status.not_found(namespaces, name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise status.forbidden(kind, new["metadata"].get("name", ""), why, [cause])
