"""Pods as controllers see them: made from a template, active or not, ready or not, which to delete first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime

from kubesim.conditions import condition_of
from kubesim.controllers.base import Controller, is_ending, owner_reference, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.times import parse

ENDED = ("Succeeded", "Failed")
TERMINATING = "is being terminated"
"""What the API says of a namespace whose end has begun: nobody needs an event about that."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
COST = re.compile("-?[0-9]{1,10}")
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
    ready = condition_of(pod.get("status"), "Ready")
    return parse(ready["lastTransitionTime"]) if ready.get("status") == "True" else None


def is_available(controller: Controller, owner: Obj, pod: Obj) -> bool:
    """Whether a pod has been ready for as long as its owner wants; the owner is looked at again when it will have."""
    since = ready_since(pod)
    if since is None:
        return False
    left = owner["spec"].get("minReadySeconds", 0) - (controller.clock.now() - since).total_seconds()
    if left > 0:
        controller.queue.add_after(queue_key(owner), left)
    return bool(left <= 0)


def restarts(pod: Obj) -> int:
    """Return the restarts of all containers."""
    status = pod.get("status", {})
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(int(item.get("restartCount", 0)) for item in statuses)


def removal_rank(pod: Obj, now: datetime | None = None, neighbours: int = 0) -> tuple[object, ...]:
    """Sort key: which of too many pods go first.

    Those that are unassigned, pending, unready, cheap to delete (by their annotation), crowded (``neighbours`` of
    one kind on their node), ready for a short time, restarted often, and young. With ``now``, ages count by their
    order of magnitude, so that not always the youngest goes.
    """
    since, made = ready_since(pod), parse(pod["metadata"]["creationTimestamp"])
    return (
        bool(pod["spec"].get("nodeName")),
        PHASE_ORDER.get(phase_of(pod), 2),
        since is not None,
        _deletion_cost(pod),
        -neighbours,
        _age(since, now) if since is not None else 0.0,
        -max_restarts(pod),
        _age(made, now),
        pod["metadata"]["uid"],
    )


def _age(at: datetime, now: datetime | None) -> float:
    if now is None:
        return -at.timestamp()
    nanoseconds = (now - at).total_seconds() * 1e9
    return float(int(math.log2(nanoseconds))) if nanoseconds > 0 else -1.0


def _deletion_cost(pod: Obj) -> int:
    cost = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    return int(cost) if COST.fullmatch(cost) else 0


def max_restarts(pod: Obj) -> int:
    """Return the restarts of the container that was restarted most often."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return max((int(item.get("restartCount", 0)) for item in statuses), default=0)


async def create(controller: Controller, owner: Obj, pod: Obj) -> Obj:
    """Create a pod and say so in an event, or say why not and raise."""
    try:
        made = await controller.informers["pods"].create(pod)
    except ApiError as error:
        if TERMINATING not in error.message:
            await controller.tell(owner, "FailedCreate", error=error.message)
        raise
    await controller.tell(owner, "SuccessfulCreate", name=made["metadata"]["name"])
    return made


async def create_all(controller: Controller, owner: Obj, wanted: Iterable[Obj]) -> ApiError | None:
    """Create pods in batches of 1, 2, 4 ... up to that in which one is refused; returns the first refusal."""
    left, size = list(wanted), 1
    refusal = None
    while left and refusal is None:
        batch, left, size = left[:size], left[size:], size * 2
        for pod in batch:
            try:
                await create(controller, owner, pod)
            except ApiError as error:
                if TERMINATING in error.message:
                    return None
                refusal = refusal or error
    return refusal
