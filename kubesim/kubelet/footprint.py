"""What the pods of a node take of its memory, its disk and its process numbers, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from datetime import datetime

from kubesim.errors import Obj
from kubesim.kubelet import usage
from kubesim.kubelet.host import Node
from kubesim.kubelet.layers import Space, empty_dirs, weigh
from kubesim.kubelet.memory import EVERYWHERE, PODS, overwhelm, process, score
from kubesim.kubelet.node_images import NodeImages
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.records import Container
from kubesim.kubelet.usage import Usage
from kubesim.scheduler.state import requests
from kubesim.shell.machine import Machine


@dataclass(frozen=True, slots=True)
class Process:
    """A container's own process; times in seconds since the epoch, ``ended`` None while it runs."""

    pod: Obj
    container: str
    usage: Usage
    started: float
    ended: float | None

    def elapsed(self, at: float) -> float | None:
        """Return for how long it had run at a moment (seconds); None where it did not run."""
        return at - self.started if self.started <= at and (self.ended is None or at < self.ended) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inhabited(Usage):
    """Use of a container in whose machine something really runs; ``since`` is its start in seconds since 1970."""

    machine: Machine
    since: float

    def cpu(self, elapsed_s: float) -> float:
        """Return the cores used at a moment."""
        return Usage.cpu(self, elapsed_s) + self.machine.meter.cores(self.since + elapsed_s)

    def cpu_seconds(self, elapsed_s: float) -> float:
        """Return the CPU time used since the start."""
        return Usage.cpu_seconds(self, elapsed_s) + self.machine.meter.seconds(self.since + elapsed_s)

    def memory(self, elapsed_s: float) -> float:
        """Return the bytes of the working set."""
        return Usage.memory(self, elapsed_s) + self.machine.held


def processes(worker: PodWorker) -> Iterator[Process]:
    """Yield the processes of a pod: those that run, and those before them."""
    for container in worker.record.containers:
        if worker.record.spec(container)["image"] in worker.record.images:
            found = usage.of(worker, container)
            for instance in (container.previous, container.instance):
                if instance is not None:
                    if instance is container.instance and (machine := worker.sandbox.entered(container)) is not None:
                        found = Inhabited(*astuple(found), machine=machine, since=instance.started_at.timestamp())
                    ended = instance.finished_at.timestamp() if instance.finished_at else None
                    started = instance.started_at.timestamp()
                    yield Process(worker.record.pod, container.name, found, started, ended)


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
    for own in processes(worker):
        elapsed = own.elapsed(now)
        if elapsed is not None:
            memory[own.container] = int(own.usage.memory(elapsed))
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


DETECT_S = 300.0
"""Seconds between two looks of a kubelet whether images fill their disk."""
INODES = 9000
"""Entries of a file system that an image takes, more or less."""
TOO_FEW = (
    "Failed to garbage collect required amount of images. Attempted to free {} bytes, but only found {} bytes "
    "eligible to free."
)


@dataclass(slots=True)
class Seen:
    """An image: since when it is there, and when it was last used."""

    since: datetime
    used: datetime


class ImageStore:
    """The account of one node's images: what they take, and which of them nobody uses."""

    def __init__(self, images: NodeImages, workers: Callable[[], Iterable[PodWorker]]) -> None:
        self.images = images
        self._workers = workers
        self._seen: dict[str, Seen] = {}

    @property
    def total(self) -> int:
        """The bytes of all images."""
        return sum(layer.size for layer in self.images.layers().values())

    def detect(self, now: datetime) -> None:
        """Note which images are there, and which are in use."""
        using, there = self._in_use(dead=True), self.images.every()
        for ident in there:
            seen = self._seen.setdefault(ident, Seen(now, now))
            seen.used = now if ident in using else seen.used
        for ident in self._seen.keys() - there.keys():
            del self._seen[ident]

    def _in_use(self, *, dead: bool) -> set[str]:
        """Return the images of containers; those that are over have some only while nobody reclaims space."""
        found = (
            self.images.find(worker.record.spec(container)["image"])
            for worker in self._workers()
            for container in worker.record.containers
            if dead or not (container.done or worker.gone)
        )
        return {image.id for image in found if image is not None}

    def free(self, wanted: int | None, now: datetime, least_age_s: float, *, dead: bool = True) -> int:
        """Remove images that nobody uses, the longest unused first, until so many bytes are free (None: all of them).

        Returns the bytes that are. One that is younger than ``least_age_s`` stays; ``dead``: whether containers that
        are over keep theirs.
        """
        self.detect(now)
        before, freed = self.total, 0
        unused = self.images.every().keys() - self._in_use(dead=dead)
        for ident in sorted(unused, key=lambda each: (self._seen[each].used, self._seen[each].since)):
            if (now - self._seen[ident].since).total_seconds() < least_age_s:
                continue
            self.images.remove(ident)
            freed = before - self.total
            if wanted is not None and freed >= wanted:
                break
        return freed
