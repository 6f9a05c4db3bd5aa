"""Resources that a pod's containers may use: volumes and disk space."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.kubelet import timings
from kubesim.kubelet.layers import empty_dirs, taken
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.status import PodRecord
from kubesim.kubelet.volumes import MountError
from kubesim.recorder import Recorder

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
