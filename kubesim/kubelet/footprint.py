"""What the pods of a node take of its memory, its disk and its process numbers, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesim.errors import Obj
from kubesim.kubelet.consumption import processes
from kubesim.kubelet.layers import Space, empty_dirs, weigh
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.records import Container
from kubesim.scheduler.state import requests

LOG_FILES = 2
"""A container's log, and the link to it."""
PAUSE = 1
"""The process that holds a pod's sandbox."""


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container that runs takes."""

    name: str
    memory: int
    root: Space
    logs: Space

    def of(self, resource: str) -> int | None:
        """Return what it takes of a resource; None for what is not measured by container."""
        return {"memory": self.memory, "ephemeral-storage": self.root.bytes + self.logs.bytes}.get(resource)


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod takes."""

    worker: PodWorker
    containers: list[ContainerUse]
    volumes: dict[str, Space]
    processes: int
    requests: dict[str, int] = field(default_factory=dict)

    @property
    def pod(self) -> Obj:
        """The pod."""
        return self.worker.record.pod

    @property
    def memory(self) -> int:
        """The bytes of its working sets."""
        return sum(each.memory for each in self.containers)

    @property
    def disk(self) -> Space:
        """What its files, logs and volumes take."""
        found = [*(each.root + each.logs for each in self.containers), *self.volumes.values()]
        return sum(found, Space())

    def of(self, resource: str) -> int:
        """Return what it takes of a resource."""
        disk = self.disk
        known = {"memory": self.memory, "ephemeral-storage": disk.bytes, "inodes": disk.inodes}
        return known.get(resource, self.processes)


def measure(worker: PodWorker, now: float, *, disk: bool = True) -> PodUse:
    """Return what a pod takes at a moment (seconds since 1970); ``disk``: of its node's disk, too, which is dear."""
    memory: dict[str, int] = {}
    for process in processes(worker):
        elapsed = process.elapsed(now)
        if elapsed is not None:
            memory[process.container] = int(process.usage.memory(elapsed))
    running = [container for container in worker.record.containers if container.name in memory]
    return PodUse(
        worker,
        [_container(worker, container, memory[container.name], disk=disk) for container in running],
        volumes(worker) if disk else {},
        PAUSE + sum(_processes(worker, container) for container in running),
        requests(worker.record.pod["spec"]),
    )


def on_disk(workers: Iterable[PodWorker]) -> Space:
    """Return what all containers and volumes of some pods take of a disk."""
    found = Space()
    for worker in workers:
        for container in worker.record.containers:
            found += _root(worker, container) + _logs(container)
        found += sum(volumes(worker).values(), Space())
    return found


def volumes(worker: PodWorker) -> dict[str, Space]:
    """Return what a pod's own volumes take of its node's disk, by name."""
    mounts, own = worker.sandbox.mounts or {}, empty_dirs(worker.record.pod["spec"])
    return {name: weigh(mounts[name]) for name, at in own.items() if name in mounts and at.get("medium") != "Memory"}


def _container(worker: PodWorker, container: Container, memory: int, *, disk: bool) -> ContainerUse:
    root = _root(worker, container) if disk else Space()
    return ContainerUse(container.name, memory, root, _logs(container))


def _root(worker: PodWorker, container: Container) -> Space:
    machine = worker.sandbox.entered(container)
    return weigh(machine.files.root) if machine is not None else Space()


def _logs(container: Container) -> Space:
    instance = container.instance
    return Space(instance.log.size, LOG_FILES) if instance is not None and instance.log is not None else Space()


def _processes(worker: PodWorker, container: Container) -> int:
    machine = worker.sandbox.entered(container)
    return max(len(machine.processes), 1) if machine is not None else 1
