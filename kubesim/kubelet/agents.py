"""What a node's kubelet and container runtime can do now, and what follows where one of its services is stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from kubesim.clock import Clock
from kubesim.kubelet import timings
from kubesim.kubelet.gpus import NodeGpus
from kubesim.shell.hostside import units
from kubesim.shell.services import Services

KUBELET, RUNTIME, FABRIC, PERSISTENCE = "kubelet", "containerd", "nvidia-fabricmanager", "nvidia-persistenced"
DOWN = "container runtime is down"
SILENT_PLEG = "PLEG is not healthy: pleg was last seen active {} ago; threshold is 3m0s"
REFUSED = "connect: connection refused"
COMMAND_FAILED = 'E{:%m%d %H:%M:%S.%f} {:>7} run.go:72] "command failed" err={}'
NO_SWITCHES = (
    "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do "
    "[NV_WARN_NOTHING_TO_DO]"
)
NO_DEVICES = (
    "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist, and that user "
    "0 has read and write permissions for those files."
)


class Agents:
    """Those of one node. ``came`` is called when its kubelet has started, ``went`` when it has ended.

    ``configure`` lets the kubelet read its configuration; it returns why it cannot use that, or nothing.
    """

    def __init__(self, clock: Clock, gpus: NodeGpus) -> None:
        self._clock = clock
        self._gpus = gpus
        self.configure: Callable[[], str] = str
        self.came: Callable[[], None] = lambda: None
        self.went: Callable[[], None] = lambda: None
        self.services = Services(clock, lambda: units(gpus.board), self._number)
        self.services.begins = {KUBELET: self._kubelet, FABRIC: self._fabric, PERSISTENCE: self._persistence}
        self.services.ends = {KUBELET: lambda: self.went(), FABRIC: self._unfabric}

    @property
    def silent(self) -> bool:
        """Whether no kubelet runs."""
        return not self.services.runs(KUBELET)

    @property
    def idle(self) -> bool:
        """Whether nothing can be done to containers: they go on as they are."""
        return self.silent or not self.services.runs(RUNTIME)

    def not_ready(self) -> str:
        """Return why the kubelet calls its node not ready, in its words; empty where it is."""
        if self.services.runs(RUNTIME) or (since := self.services.of(RUNTIME).since) is None:
            return ""
        gone = (self._clock.now() - since).total_seconds()
        found = [DOWN] * (gone >= timings.RUNTIME_DOWN_S)
        found += [SILENT_PLEG.format(_go(gone))] * (gone >= timings.PLEG_SILENT_S)
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""

    def _number(self, name: str, at: datetime) -> int:
        return self._gpus.numbers.of(f"{name}/{at.isoformat()}", 1, at)

    def _kubelet(self, pid: int) -> str:
        if why := self.configure():
            return COMMAND_FAILED.format(self._clock.now(), pid, json.dumps(why))
        self.came()
        return ""

    def _fabric(self, pid: int) -> str:
        if not self._gpus.board.loaded:
            return NO_SWITCHES
        self._gpus.board.set_fabric(self._clock.now(), configured=True)
        return ""

    def _unfabric(self) -> None:
        self._gpus.board.set_fabric(self._clock.now(), configured=False)

    def _persistence(self, pid: int) -> str:
        return "" if self._gpus.board.loaded else NO_DEVICES


def _go(seconds: float) -> str:
    """Return a duration as Go prints it."""
    whole, parts = int(seconds), ""
    if whole >= 3600:
        parts = f"{whole // 3600}h"
    return f"{parts}{whole // 60 % 60}m{seconds % 60:.6f}".rstrip("0").rstrip(".") + "s"
