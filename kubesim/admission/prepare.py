"""What each kind's strategy sets when an object is created or changed, beyond its defaults."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING

from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.schema.decode import Decoder
from kubesim.schema.registry import Kind
from kubesim.schema.types import shape_of

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
QOS_RESOURCES = ("cpu", "memory")


def create(ops: Operations, kind: Kind, new: Obj) -> None:
    """Complete a new object in place."""
    if kind.has_status and kind.resource != "nodes":
        new["status"] = empty_status(kind)
    step = ON_CREATE.get(kind.resource)
    if step is not None:
        step(ops, new)


def empty_status(kind: Kind) -> Obj:
    """Return the status of an object of which nobody has reported anything yet."""
    shape = shape_of(kind.schema)
    field = shape.field("status") if shape else None
    return Decoder().object(field.shape, {}) if field is not None and field.shape is not None else {}


def update(kind: Kind, old: Obj, new: Obj) -> None:
    """Complete a changed object in place."""
    if kind.resource == "secrets":
        merge_string_data(new)
    if kind.resource == "namespaces":
        new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]
        new["spec"] = old.get("spec", {})
    if kind.resource == "services" and "clusterIP" not in new["spec"]:
        new["spec"] |= {name: old["spec"][name] for name in ("clusterIP", "clusterIPs") if name in old["spec"]}


def namespace(ops: Operations, new: Obj) -> None:
    """A namespace is active, has the label of its name, and is finalized by its controller."""
    new["spec"] = {"finalizers": ["kubernetes"]}
    new["status"] = {"phase": "Active"}
    new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"].get("name", "")


def pod(ops: Operations, new: Obj) -> None:
    """A pod begins Pending with its class of service."""
    new["status"] = {"phase": "Pending", "qosClass": qos_class(new["spec"])}
    if new["spec"].get("schedulingGates"):
        new["status"]["conditions"] = [dict(GATED)]


def qos_class(spec: Obj) -> str:
    """Return Guaranteed where all requests equal limits for cpu and memory, BestEffort where there are none."""
    holders = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    resources = [holder.get("resources", {}) for holder in holders]
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
    uid, name = new["metadata"]["uid"], new["metadata"].get("name", "")
    metadata = spec["template"].setdefault("metadata", {})
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = new["metadata"].get("labels")
    inherited = not labels or labels == metadata.get("labels")
    metadata["labels"] = dict(sorted({**own, **metadata.get("labels", {})}.items()))
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {"batch.kubernetes.io/controller-uid": uid, **selector.get("matchLabels", {})}
    if inherited:
        new["metadata"]["labels"] = dict(metadata["labels"])


def secret(ops: Operations, new: Obj) -> None:
    """``stringData`` is a way to write ``data`` and is never read back."""
    merge_string_data(new)


def merge_string_data(new: Obj) -> None:
    """Move ``stringData`` into ``data``, encoded."""
    plain = new.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        new["data"] = {**new.get("data", {}), **encoded}


def service(ops: Operations, new: Obj) -> None:
    """A service without an address gets the next free one of 10.96.0.0/16."""
    spec = new["spec"]
    new["status"] = {"loadBalancer": {}}
    if spec["type"] == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(ops)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _free_address(ops: Operations) -> str:
    services = ops.registry.by_resource("services")
    taken = {obj["spec"].get("clusterIP") for obj in ops.store.list(services)}
    number = next(n for n in range(10, 65_534) if f"10.96.{n >> 8}.{n & 255}" not in taken)
    return f"10.96.{number >> 8}.{number & 255}"


ON_CREATE: dict[str, Callable[[Operations, Obj], None]] = {
    "namespaces": namespace,
    "pods": pod,
    "jobs.batch": job,
    "secrets": secret,
    "services": service,
}
