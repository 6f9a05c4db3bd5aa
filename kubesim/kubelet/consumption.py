"""What runs on a node and what it uses, as the kubelet tells it to whoever measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

from kubesim.errors import Obj
from kubesim.kubelet import usage
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.usage import Usage
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
    """What a container uses in whose machine something really runs; ``since`` is its start in seconds since 1970."""

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
