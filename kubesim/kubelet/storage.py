"""Resources that a pod's containers may use: volumes, disk space, and changes of their size."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction

import orjson

from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.kubelet import timings
from kubesim.kubelet.layers import empty_dirs, taken
from kubesim.kubelet.memory import limit_of
from kubesim.kubelet.records import Container
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.status import IN_PROGRESS, PENDING, PodRecord, group
from kubesim.kubelet.volumes import MountError
from kubesim.recorder import Recorder
from kubesim.times import stamp

EPHEMERAL = "ephemeral-storage"
CHECK_S = 10.0
"""How often a kubelet looks."""
GRACE_S = 1.0
"""How long the processes of a pod have that has written too much."""
Eviction = tuple[str, dict[str, str], float]
"""Why a pod has to go, the annotations of the event, and the seconds that its processes have."""
VOLUME = 'Usage of EmptyDir volume "{}" exceeds the limit "{}". '
POD = "Pod ephemeral local storage usage exceeds the total limit of containers {}. "
CONTAINER = 'Container {} exceeded its local ephemeral storage limit "{}". '


class Storage:
    """The disk space of one pod; ``due`` is when to look again, None: not at all."""

    __slots__ = ("_record", "_sandbox", "due")

    def __init__(self, record: PodRecord, sandbox: Sandbox) -> None:
        self._record = record
        self._sandbox = sandbox
        self.due: datetime | None = None

    def sync(self, now: datetime) -> Eviction | None:
        """Return why the pod has to go, if it has."""
        if not _bounded(self._record.pod["spec"]) or self.due is not None and now < self.due:
            return None
        looked, self.due = self.due is not None, now + timedelta(seconds=CHECK_S)
        why = self._excess() if looked else ""
        return (why, {}, GRACE_S) if why else None

    def _excess(self) -> str:
        spec, sandbox = self._record.pod["spec"], self._sandbox
        volumes = {name: taken(directory) for name, directory in (sandbox.mounts or {}).items()}
        for name, source in empty_dirs(spec).items():
            size = source.get("sizeLimit")
            if size and 0 < quantity.parse(size) < volumes.get(name, 0):
                return VOLUME.format(name, quantity.canonical(size))
        limits = {c["name"]: limit for c in spec["containers"] if (limit := _limit(c))}
        used = {container.name: sandbox.written(container) for container in self._record.containers}
        on_disk = [volumes.get(name, 0) for name, at in empty_dirs(spec).items() if at.get("medium") != "Memory"]
        if limits and sum(used.values()) + sum(on_disk) > sum(map(quantity.parse, limits.values())):
            return POD.format(_total([*limits.values()]))
        for name, limit in limits.items():
            if used.get(name, 0) > quantity.parse(limit):
                return CONTAINER.format(name, quantity.canonical(limit))
        return ""


def _bounded(spec: Obj) -> bool:
    """Whether anything of a pod's space has a limit."""
    return any(map(_limit, spec["containers"])) or any("sizeLimit" in at for at in empty_dirs(spec).values())


def _limit(container: Obj) -> str:
    return str(((container.get("resources") or {}).get("limits") or {}).get(EPHEMERAL, ""))


def _total(limits: list[str]) -> str:
    """Return the sum of quantities, written as the first one is."""
    total = sum(map(quantity.parse, limits), Fraction(0))
    return quantity.write(total, "binary" if limits[0].endswith("i") else "decimal")


class Mounts:
    """The volumes of one pod: tried at once, then again after doubling waits."""

    __slots__ = ("_delay", "_recorder", "_sandbox", "done", "retry_at")

    def __init__(self, sandbox: Sandbox, recorder: Recorder) -> None:
        self.done = False
        self.retry_at: datetime | None = None
        self._sandbox = sandbox
        self._recorder = recorder
        self._delay = timings.MOUNT_FIRST_S

    async def sync(self) -> None:
        """Try to mount them, if that is due."""
        now = self._sandbox.host.clock.now()
        if self.done or (self.retry_at is not None and now < self.retry_at):
            return
        try:
            await self._sandbox.check_volumes()
        except MountError as error:
            await self._recorder.warning(self._sandbox.worker.record.pod, "FailedMount", str(error))
            self.retry_at = now + timedelta(seconds=self._delay)
            self._delay = min(self._delay * 2, timings.MOUNT_CAP_S)
            return
        self.done, self.retry_at = True, None


RETRY_S = 5.0
"""Seconds between two tries of a deferred change; upstream looks whenever a pod ends, and every three minutes."""
DEFERRED = "Deferred"
Fits = Callable[[Obj], tuple[str, str] | None]
"""A pod -> why its node cannot give it what it asks for: reason and message; None where it can, and does."""


class Resizing:
    """The changes of one pod; ``due`` is when to look again, None: not before the pod changes."""

    __slots__ = ("_fits", "_record", "_sandbox", "due")

    def __init__(self, record: PodRecord, sandbox: Sandbox, fits: Fits) -> None:
        self._record = record
        self._sandbox = sandbox
        self._fits = fits
        self.due: datetime | None = None

    def sync(self, now: datetime) -> str:
        """Grant what is asked and bring into force what was granted; returns what to tell once all is done."""
        record = self._record
        for container in self._containers():
            if container.resources is None:
                container.resources = container.actual = record.asked(container)
        if any(record.asked(item) != item.resources for item in self._containers()):
            self._decide(now)
        elif record.resize.pop(PENDING, None):
            self.due = None
        if IN_PROGRESS not in record.resize or self.due is not None and now < self.due:
            return ""
        self.due = None
        return self._act()

    def _containers(self) -> list[Container]:
        return [container for container in self._record.containers if not container.ephemeral]

    def _decide(self, now: datetime) -> None:
        """Ask the node for what the pod wants."""
        record = self._record
        why = self._fits(record.pod)
        if why is not None:
            self._tell(PENDING, *why, now)
            self.due = now + timedelta(seconds=RETRY_S) if why[0] == DEFERRED else None
            return
        for container in self._containers():
            container.resources = record.asked(container)
        record.resize.pop(PENDING, None)
        self._tell(IN_PROGRESS, "", "", now)
        self.due = now + timedelta(seconds=timings.PLEG_S)

    def _tell(self, kind: str, reason: str, message: str, now: datetime) -> None:
        old, generation = self._record.resize.get(kind), self._record.pod["metadata"].get("generation")
        if old is not None and (old.get("reason", ""), old.get("message", "")) == (reason, message):
            now_text = old["lastProbeTime"]
        else:
            now_text = stamp(now)
        same = old is not None and old.get("reason", "") == reason
        since = old["lastTransitionTime"] if old is not None and same else now_text
        found: Obj = {"type": kind, "status": "True", "lastProbeTime": now_text, "lastTransitionTime": since}
        found |= {"observedGeneration": generation} if generation else {}
        found |= {"reason": reason, "message": message} if reason else {}
        self._record.resize[kind] = found

    def _act(self) -> str:
        """Bring what was granted into force where that needs no restart."""
        record = self._record
        for container in self._containers():
            if not record.must_restart(container):
                container.actual = container.resources
                self._limit(container)
        if any(container.actual != container.resources for container in self._containers()):
            return ""
        del record.resize[IN_PROGRESS]
        return f"Pod resize completed: {self._summary()}"

    def _limit(self, container: Container) -> None:
        """Let the control group of a container that somebody is in have its new limits."""
        machine, spec = self._sandbox.entered(container), self._record.spec(container)
        if machine is not None:
            machine.memory_limit = limit_of(spec)
            cpu = ((spec.get("resources") or {}).get("limits") or {}).get("cpu")
            machine.meter.most = float(quantity.parse(str(cpu))) if cpu else float(machine.cpus)

    def _summary(self) -> str:
        groups = {"initContainers": [], "containers": []}  # type: dict[str, list[Obj]]
        for container in self._containers():
            groups[group(container)].append({"name": container.name, "resources": container.resources or {}})
        return orjson.dumps({name: items for name, items in groups.items() if items}).decode()
