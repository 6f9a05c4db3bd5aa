"""Containers that share their processes: all of a pod (shareProcessNamespace), or one that looks at another."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kubesim.kubelet.records import Container
from kubesim.shell.hostside import HostProcess
from kubesim.shell.machine import Machine

if TYPE_CHECKING:
    from kubesim.kubelet.sandbox import Sandbox

APART = 400
"""Between the numbers of two containers' first processes."""
AFTER_PAUSE = 6
PAUSE = "/pause"


async def join(sandbox: Sandbox, container: Container, made: Machine) -> None:
    """Let a new machine see the processes that it shares, and be seen."""
    record = sandbox.worker.record
    pod = record.pod["spec"]
    if pod.get("hostPID"):
        return
    place = [each.name for each in record.containers].index(container.name)
    if pod.get("shareProcessNamespace"):
        made.numbering = partial(_shifted, AFTER_PAUSE + APART * place)
        made.outside = partial(_all, sandbox, made)
        return
    name = record.spec(container).get("targetContainerName")
    target = next((each for each in record.containers if each.name == name and each.running), None)
    if target is not None:
        _, looked_at = await sandbox.inside(target)
        made.numbering = partial(_shifted, looked_at.next_pid + APART * place)
        made.outside = partial(_beside, looked_at)
        before = looked_at.outside
        looked_at.outside = lambda: {**before(), **made.processes}


def _shifted(offset: int, inner: int) -> int:
    return offset + inner


def _beside(other: Machine) -> Mapping[int, Any]:
    other.muster()
    return other.processes


def _all(sandbox: Sandbox, made: Machine) -> Mapping[int, Any]:
    """Return the processes of a pod's other containers that somebody has entered, and the one that holds it open."""
    started = sandbox.worker.record.bound_at
    found: dict[int, Any] = {1: HostProcess(1, 0, [PAUSE], started, uid=65535)}
    for box in sandbox.boxes.values():
        if box.machine is not None and box.machine is not made:
            found |= _beside(box.machine)
    return found


async def wake(sandbox: Sandbox, container: Container) -> None:
    """Let all of a pod's containers have a machine whose processes are seen from the one that is entered."""
    record = sandbox.worker.record
    if record.pod["spec"].get("shareProcessNamespace"):
        for each in record.containers:
            if each is not container and each.running and sandbox.entered(each) is None:
                await sandbox.inside(each)
