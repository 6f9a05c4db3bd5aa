"""Changes of what a running pod's containers may use: what is asked, what the node has granted, what is in force."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import orjson

from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.kubelet import timings
from kubesim.kubelet.memory import limit_of
from kubesim.kubelet.records import Container
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.status import IN_PROGRESS, PENDING, PodRecord, group
from kubesim.times import stamp

RETRY_S = 5.0
"""How often a deferred change is tried again; upstream looks whenever a pod ends, and every three minutes."""
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
