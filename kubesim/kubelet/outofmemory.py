"""Where all of a node's memory is in use: whom the kernel kills, before any kubelet has looked."""

from __future__ import annotations

from datetime import datetime

from kubesim.kubelet.footprint import ContainerUse, PodUse
from kubesim.kubelet.host import Node
from kubesim.kubelet.memory import EVERYWHERE, PODS, overwhelm, process, score

SYSTEM = "System OOM encountered, victim process: {}, pid: {}"


def relieve(node: Node, pods: list[PodUse], own: int, capacity: int, for_pods: int, now: datetime) -> str | None:
    """Kill a container where the node, or the control group of all its pods, is full.

    Returns what the kubelet tells of it: nothing ("") where only the pods' group was full; None: nobody was killed.
    """
    used = sum(each.memory for each in pods)
    scope = EVERYWHERE if own + used > capacity else PODS if used > for_pods else ""
    found = [(use, container) for use in pods for container in use.containers]
    if not scope or not found:
        return None
    use, victim = max(found, key=lambda each: _badness(each[0], each[1], capacity))
    sandbox = use.worker.sandbox
    container = next(each for each in use.worker.record.containers if each.name == victim.name)
    if container.instance is None or container.instance.oom_at is not None:
        return None
    overwhelm(sandbox, container, scope, victim.memory)
    name, pid = process(sandbox, container)
    return SYSTEM.format(name, pid) if scope == EVERYWHERE else ""


def _badness(use: PodUse, container: ContainerUse, capacity: int) -> int:
    """Return the kernel's points: thousandths of the memory that a process holds, and its oom_score_adj."""
    spec = use.worker.record.spec_named(container.name)
    return container.memory * 1000 // max(capacity, 1) + score(use.pod, spec, capacity)
