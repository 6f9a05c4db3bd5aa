"""Records of pods: rebuilt from what a kubelet kept of them, or from what the API shows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kubesim.errors import Obj
from kubesim.kubelet.host import Node
from kubesim.kubelet.records import Container, containers_of
from kubesim.kubelet.status import PodRecord
from kubesim.times import parse


def rebuild(pod: Obj, node: Node, kept: Obj | None, files: Obj | None, now: datetime) -> PodRecord:
    """Return the record of a pod; ``kept`` is what ``dump`` returned before the kubelet was started again, if any."""
    uid, status = pod["metadata"]["uid"], pod.get("status", {})
    if kept is not None:
        containers = [Container.load(item) for item in kept["containers"]]
        address, bound = node.address(uid, kept["ip"]), parse(kept["bound_at"])
        return PodRecord(pod, containers, bound, node.ip, address, files=files)
    containers = containers_of(pod, "initContainers", "initContainerStatuses", now)
    containers += containers_of(pod, "containers", "containerStatuses", now)
    containers += containers_of(pod, "ephemeralContainers", "ephemeralContainerStatuses", now)
    bound = parse(status["startTime"]) if status.get("startTime") else now
    address = node.ip if pod["spec"].get("hostNetwork") else node.address(uid, status.get("podIP", ""))
    return PodRecord(pod, containers, bound, node.ip, address)


def dump(record: PodRecord) -> dict[str, Any]:
    """Return what a later start needs of a pod's record."""
    containers = [container.dump() for container in record.containers]
    return {"containers": containers, "ip": record.ip, "bound_at": record.bound_at}
