"""What a kubelet does where its node is short of memory, disk or process numbers: reclaim, then let pods go.

The order of things, the figures and the words are those of pkg/kubelet/eviction of Kubernetes 1.34. It looks only
after something has changed that may matter, and as long as the node is short of something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from kubesim.api import quantity
from kubesim.api.quantity import parse
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.informer import WorkQueue
from kubesim.kubelet import configuration, footprint
from kubesim.kubelet.footprint import DETECT_S, INODES, TOO_FEW, ImageStore, PodUse, measure, on_disk
from kubesim.kubelet.host import Node, Watch
from kubesim.kubelet.layers import Space, weigh
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.status import qos_class
from kubesim.kubelet.thresholds import (
    ALLOCATABLE,
    DISK,
    MEMORY,
    PIDS,
    PRESSURES,
    Observation,
    Rules,
    Threshold,
    WrongConfig,
    binary,
    rules,
)
from kubesim.kubelet.thresholds import INODES as OF_INODES
from kubesim.kubelet.volumes import BASE
from kubesim.recorder import node_reference
from kubesim.scheduler.terms import tolerates
from kubesim.shell.share import OWN_ENTRIES

CHECK_S = 10.0
"""How often a kubelet looks."""
WARM_S = 30.0
"""How long after a start or a growth the memory of a program may still grow."""
NEAR = 0.3
"""Where less than this share of a disk is left, a kubelet looks, whatever its thresholds are."""
LARGE_MIB = 32
"""Programs that hold less than that matter to no node."""
HARD_GRACE_S = 1.0
MOST_PIDS, OWN_PIDS = 4_194_304, 214
CRITICAL = 2_000_000_000
"""The priority from which on a pod is spared."""
STATIC = ("kubernetes.io/config.source", "kubernetes.io/config.mirror")
LOW = "The node was low on resource: {}. "
QUANTITY = "Threshold quantity: {}, available: {}. "
CONTAINER = "Container {} was using {}, request is {}, has larger consumption of {}. "
CONDITION = "The node had condition: [{}]. "
RECLAIM = "Attempting to reclaim {}"


@dataclass
class Pressure(Watch):
    """The eviction manager of one node. ``conditions`` are those that it reports."""

    node: Node
    clock: Clock
    workers: Callable[[], Collection[PodWorker]]
    report: Callable[[], Awaitable[None]]
    """Brings the conditions of the node up to date in the API."""
    wake: Callable[[float], None]
    """Lets ``sync`` be called after so many seconds."""
    allocatable: int = 0
    """The bytes of memory that pods may have."""
    conditions: list[str] = field(default_factory=list)
    outside: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.images = ImageStore(self.node.images, self.workers)
        self.capacity = int(quantity.parse(self.node.capacity.get("memory", "4Gi")))
        self._images = 0
        self._last: dict[str, datetime] = {}
        self._met: list[Threshold] = []
        self._collected: datetime | None = None
        self._failed = False
        self._until: datetime | None = None
        self._killed: list[str] = []
        self._take_over(rules({}))

    # When to look.

    def written(self) -> None:
        """Note that something was written to the node's disk."""
        if self.node.disk.room.left < self._floor:
            self.touch()

    def started(self, memory_mib: float) -> None:
        """Note that a program has started that will hold so much memory."""
        if self._images != (total := self.images.total):
            self.node.disk.room.take(total - self._images)
            self._images = total
            self.images.detect(self.clock.now())
            self.written()
        if memory_mib > LARGE_MIB:
            self.touch()

    def grown(self) -> None:
        """Note that a process holds much more memory than before: more than there is ends somebody's at once."""
        now = self.clock.now().timestamp()
        self._end_for_memory([measure(worker, now, disk=False) for worker in self._active()])
        self.touch()

    def touch(self) -> None:
        """Look when it is time, and a while longer."""
        now = self.clock.now()
        if self._until is None or (self._until - now).total_seconds() < WARM_S - CHECK_S:
            self._until = datetime.fromtimestamp(now.timestamp() + WARM_S, now.tzinfo)
            self.wake(CHECK_S - now.timestamp() % CHECK_S)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Take over a configuration. Raises ``WrongConfig``."""
        self._take_over(rules(config))
        self.config = config
        self.touch()

    def restart(self) -> str:
        """Read the configuration anew; returns why it cannot be used, or nothing."""
        try:
            config = configuration.read(self.node.disk.root)
        except WrongConfig as error:
            return str(error)
        try:
            self.configure(config)
        except WrongConfig as error:
            return f"failed to run Kubelet: {error}"
        return ""

    def _take_over(self, found: Rules) -> None:
        self.rules, limit = found, self.node.disk.room.limit
        marks = [each.value.of(limit) for each in found.thresholds if each.resource == DISK]
        self._floor = max([int(limit * NEAR), *marks])
        """Where less than that is left of the disk, what is written to it matters."""

    def resume(self, conditions: Iterable[Obj]) -> None:
        """Go on from the conditions that the node had when kubesim was ended."""
        known = [c["type"] for c in conditions if c["type"] in PRESSURES.values() and c["status"] == "True"]
        self._last = dict.fromkeys(known, self.clock.now())
        self.conditions = known
        if self.node.disk.looked_at:
            self.restart()
        if known:
            self.touch()

    # What there is.

    def _active(self) -> list[PodWorker]:
        """Return the pods that are not over."""
        return [
            worker
            for worker in self.workers()
            if not worker.gone and not worker.record.failure[0] and not all(c.done for c in worker.record.main)
        ]

    def use(self, resource: str, amount: int) -> None:
        """Let so much of a resource be used by what is no pod, beside the node's own system."""
        self.outside[resource] = amount
        if resource == MEMORY:
            self.node.ledger.outside = amount
            self.grown()
        self.node.disk.room.look()
        self.touch()

    def count(self) -> tuple[int, int]:
        """Return what is used of the node's disk, counted anew: bytes and entries."""
        self._images = self.images.total
        host = weigh(self.node.disk.root) if self.node.disk.looked_at else Space()
        images = Space(self.images.total, INODES * len(self.node.images.every()))
        own = Space(BASE + self.outside.get(DISK, 0), OWN_ENTRIES + self.outside.get(OF_INODES, 0))
        found = own + host + images + on_disk(self.workers())
        return found.bytes, min(found.inodes, self.node.disk.room.inodes)

    def observe(self, pods: list[PodUse]) -> dict[str, Observation]:
        """Return how much is left of everything; the disk's own account is put right."""
        room, used = self.node.disk.room, sum(each.memory for each in pods)
        room.look()
        disk, entries = Observation(room.left, room.limit), Observation(room.inodes - room.entries, room.inodes)
        busy = OWN_PIDS + self.outside.get(PIDS, 0) + sum(each.processes for each in pods)
        found = {f"{name}.available": disk for name in ("nodefs", "imagefs", "containerfs")}
        found |= {f"{name}.inodesFree": entries for name in ("nodefs", "imagefs", "containerfs")}
        return {
            "memory.available": Observation(max(self.capacity - self.node.ledger.own - used, 0), self.capacity),
            ALLOCATABLE: Observation(max(self.for_pods - used, 0), self.for_pods),
            **found,
            "pid.available": Observation(max(MOST_PIDS - busy, 0), MOST_PIDS),
        }

    @property
    def for_pods(self) -> int:
        """The bytes of memory that the control group of all pods may hold."""
        if not self.allocatable:
            return self.capacity
        hard = [t.value.of(self.capacity) for t in self.rules.thresholds if t.signal == ALLOCATABLE]
        return min(self.allocatable + max(hard, default=0), self.capacity)

    # The look.

    async def sync(self) -> float | None:
        """Look once and do what there is to do; returns the seconds until the next look, None: not by itself."""
        now = self.clock.now()
        pods = [measure(worker, now.timestamp()) for worker in self._active()]
        self._end_for_memory(pods)
        await self._tell_of_ends()
        seen = self.observe(pods)
        met = [each for each in self.rules.thresholds if each.met(seen)]
        await self._judge(met, now)
        await self._collect(seen["imagefs.available"], now)
        if self._met:
            await self._relieve(self._met, seen, pods, now)
        short = bool(met or self.conditions) or self._until is not None and self._until > now
        self._until = self._until if short else None
        return CHECK_S - now.timestamp() % CHECK_S if short else None

    async def _judge(self, met: list[Threshold], now: datetime) -> None:
        """Come to the node's conditions, which outlast what has caused them for a while."""
        self._last |= {PRESSURES[each.resource]: now for each in met}
        self._last = {
            kind: at for kind, at in self._last.items() if (now - at).total_seconds() < self.rules.transition_s
        }
        self._met = met
        before, self.conditions = self.conditions, [*self._last]
        if before != self.conditions:
            await self.report()

    async def _collect(self, disk: Observation, now: datetime) -> None:
        """Remove images where they fill their disk."""
        due = self._collected is None or (now - self._collected).total_seconds() >= DETECT_S
        percent = 100 - disk.available * 100 // max(disk.capacity, 1)
        if not due or percent < self.rules.high:
            self._failed = self._failed and percent >= self.rules.high
            return
        self._collected = now
        wanted = disk.capacity * (100 - self.rules.low) // 100 - disk.available
        freed = self.images.free(wanted, now, self.rules.least_age_s)
        failed, self._failed = self._failed, freed < wanted
        if self._failed:
            text = TOO_FEW.format(wanted, freed)
            await self._warn("FreeDiskSpaceFailed", text)
            if failed:
                await self._warn("ImageGCFailed", text)

    async def _relieve(
        self, met: list[Threshold], seen: dict[str, Observation], pods: list[PodUse], now: datetime
    ) -> None:
        """Reclaim what the node itself can spare; where that is not enough, let one pod go."""
        short = met[0]
        await self._warn("EvictionThresholdMet", RECLAIM.format(short.resource))
        if PRESSURES[short.resource] == "DiskPressure":
            self.images.free(None, now, self.rules.least_age_s, dead=False)
            again = self.observe(pods)
            if not any(each.met(again) for each in self.rules.thresholds):
                return
        for use in sorted(pods, key=lambda each: _rank(each, short.resource)):
            if not critical(use.pod):
                use.worker.evict(*message(use, met, seen, short.resource), HARD_GRACE_S)
                return

    # What is told.

    async def _warn(self, reason: str, text: str) -> None:
        await self.node.recorder.warning(node_reference(self.node.name), reason, text)

    def _end_for_memory(self, pods: list[PodUse]) -> None:
        """Let the kernel end a container where there is no memory left."""
        killed = footprint.relieve(
            self.node, pods, self.node.ledger.own, self.capacity, self.for_pods, self.clock.now()
        )
        if killed is not None:
            self._killed.append(killed)
            self.wake(0)

    async def _tell_of_ends(self) -> None:
        killed, self._killed = self._killed, []
        for text in filter(None, killed):
            await self._warn("SystemOOM", text)

    def refusal(self, pod: Obj) -> tuple[str, str] | None:
        """Return why a pod is not taken now: reason and message; None where it is."""
        if not self.conditions or critical(pod):
            return None
        if self.conditions == ["MemoryPressure"]:
            taint = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
            spared = tolerates(pod["spec"].get("tolerations") or [], taint)
            if spared or qos_class(pod["spec"]) != "BestEffort":
                return None
        return "Evicted", CONDITION.format(" ".join(self.conditions))


def critical(pod: Obj) -> bool:
    """Whether a pod is spared: one of the node's own files, or one of very high priority."""
    notes = pod["metadata"].get("annotations") or {}
    return any(notes.get(name, "api") != "api" for name in STATIC) or (pod["spec"].get("priority") or 0) >= CRITICAL


def _rank(use: PodUse, resource: str) -> tuple[bool, int, int]:
    """Return what orders pods: who takes more than it has asked for, then by priority, then by how much more."""
    priority, taken = int(use.pod["spec"].get("priority") or 0), use.of(resource)
    if resource == PIDS:
        return False, priority, -taken
    asked = use.requests.get(resource, 0)
    more = taken - (use.requests.get(DISK, 0) if resource == OF_INODES else asked)
    return taken <= asked, priority, -more


def message(
    use: PodUse, met: list[Threshold], seen: dict[str, Observation], resource: str
) -> tuple[str, dict[str, str]]:
    """Return why a pod has to go, and the annotations of the event that says so."""
    text = LOW.format(resource)
    for each in met:
        if each.resource == resource:
            left = seen[each.signal]
            available = binary(left.available) if resource in (MEMORY, DISK) else str(left.available)
            text += QUANTITY.format(each.value.text(left.capacity), available)
            break
    specs = {c["name"]: c for c in [*use.pod["spec"]["containers"], *(use.pod["spec"].get("initContainers") or ())]}
    over: dict[str, str] = {}
    for container in use.containers:
        taken = container.of(resource)
        asked = str(((specs.get(container.name) or {}).get("resources") or {}).get("requests", {}).get(resource, "0"))
        if taken is not None and container.name in specs and taken > quantity.parse(asked):
            over[container.name] = binary(taken)
            text += CONTAINER.format(container.name, binary(taken), quantity.canonical(asked), resource)
    notes = {"offending_containers": ",".join(over), "offending_containers_usage": ",".join(over.values())}
    return text, {**notes, "starved_resource": resource}


Workers = Callable[[str], Collection[PodWorker]]
Report = Callable[[str], Awaitable[None]]


class Watches:
    """Those of some nodes. ``workers`` returns the pods of a node; ``report`` brings its conditions up to date.

    ``down_for`` returns for how many seconds its machine is off.
    """

    def __init__(self, clock: Clock, workers: Workers, report: Report, down_for: Callable[[str], float]) -> None:
        self._clock = clock
        self._down_for = down_for
        self._workers = workers
        self._report = report
        self._nodes: dict[str, Pressure] = {}
        self._queue = WorkQueue(clock, self._sync, "eviction")

    def take(self, node: Node, obj: Obj) -> None:
        """Watch a node, whose object in the API is ``obj``."""
        status, name = obj.get("status", {}), node.name
        if "ephemeral-storage" in node.capacity:
            node.disk.room.limit = int(parse(node.capacity["ephemeral-storage"]))
        found = Pressure(
            node,
            self._clock,
            partial(self._workers, name),
            partial(self._report, name),
            partial(self._queue.add_after, name),
            int(parse(str((status.get("allocatable") or {}).get("memory", 0)))),
        )
        node.disk.room.count = found.count
        node.watch = self._nodes[name] = found
        found.resume(status.get("conditions") or ())

    def leave(self, name: str) -> None:
        """Watch a node no more."""
        self._nodes.pop(name, None)

    def of(self, name: str) -> Pressure:
        """Return the manager of a node. Raises KeyError for one that is not ours."""
        return self._nodes[name]

    def start(self) -> None:
        """Begin to look."""
        self._queue.start()

    async def stop(self) -> None:
        """Look no more."""
        await self._queue.stop()

    async def _sync(self, name: str) -> None:
        found, off = self._nodes.get(name), self._down_for(name)
        again = off or (await found.sync() if found is not None else None)
        if again is not None:
            self._queue.add_after(name, again)
