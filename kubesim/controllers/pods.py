"""Pods as controllers see them: made from a template, active or not, ready or not, which to delete first."""

from __future__ import annotations

from datetime import datetime

from kubesim.controllers.base import Controller, delete_if_there, is_ending, owner_reference
from kubesim.errors import ApiError, Obj
from kubesim.times import parse

ENDED = ("Succeeded", "Failed")
PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def from_template(owner: Obj, template: Obj, *, name: str = "") -> Obj:
    """Return a pod of an owner's template, named after it with a generated end, or ``name``."""
    meta = template.get("metadata") or {}
    metadata: Obj = {
        "generateName": name or f"{owner['metadata']['name']}-",
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(meta.get("labels") or {}),
        "ownerReferences": [owner_reference(owner)],
    }
    if meta.get("annotations"):
        metadata["annotations"] = dict(meta["annotations"])
    if meta.get("finalizers"):
        metadata["finalizers"] = list(meta["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template["spec"])}


def is_active(pod: Obj) -> bool:
    """Whether a pod has neither ended nor is being deleted."""
    return not is_ending(pod) and phase_of(pod) not in ENDED


def phase_of(pod: Obj) -> str:
    """Return the phase."""
    return str(pod.get("status", {}).get("phase") or "Pending")


def ready_since(pod: Obj) -> datetime | None:
    """Return when a pod became ready, None if it is not."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            return parse(condition["lastTransitionTime"])
    return None


def is_available(pod: Obj, min_ready_seconds: int, now: datetime) -> bool:
    """Whether a pod has been ready for long enough."""
    since = ready_since(pod)
    return since is not None and (now - since).total_seconds() >= min_ready_seconds


def restarts(pod: Obj) -> int:
    """Return the restarts of all containers."""
    status = pod.get("status", {})
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(int(item.get("restartCount", 0)) for item in statuses)


def deletion_rank(pod: Obj) -> tuple[object, ...]:
    """Sort key: which pods go first when there are too many (unassigned, pending, unready, restarted, young)."""
    return (
        bool(pod["spec"].get("nodeName")),
        PHASE_ORDER.get(phase_of(pod), 2),
        ready_since(pod) is not None,
        -restarts(pod),
        -parse(pod["metadata"]["creationTimestamp"]).timestamp(),
        pod["metadata"]["name"],
    )


async def create(controller: Controller, owner: Obj, pod: Obj) -> Obj:
    """Create a pod and say so in an event, or say why not and raise."""
    try:
        made = await controller.client.create("pods", pod, namespace=owner["metadata"]["namespace"])
    except ApiError as error:
        if "is being terminated" not in error.message:
            await controller.recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
        raise
    controller.informers["pods"].note(made, created=True)
    await controller.recorder.normal(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")
    return made


async def delete(controller: Controller, owner: Obj, pod: Obj) -> None:
    """Delete a pod and say so in an event."""
    if await delete_if_there(controller, "pods", pod):
        await controller.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")
