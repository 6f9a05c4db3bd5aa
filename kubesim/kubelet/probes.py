"""Probes of one running container: each tries on its own period, and tells its kubelet what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesim.errors import Obj
from kubesim.kubelet import knocks
from kubesim.kubelet.records import Container
from kubesim.kubelet.sandbox import Sandbox

KINDS = {"startupProbe": "Startup", "livenessProbe": "Liveness", "readinessProbe": "Readiness"}
Tell = Callable[[Container, str], Awaitable[None]]


@dataclass
class Probes:
    """The probes of one start of a container. ``unhealthy`` tells of a failure, ``failed`` of too many of them."""

    sandbox: Sandbox
    container: Container
    unhealthy: Tell
    failed: Tell

    def __post_init__(self) -> None:
        spec = self.sandbox.worker.record.spec(self.container)
        self._tasks = [
            asyncio.ensure_future(self._run(kind, spec[kind])) for kind in KINDS if spec.get(kind) is not None
        ]

    def stop(self) -> None:
        """Try no more."""
        for task in self._tasks:
            task.cancel()

    async def _run(self, kind: str, spec: Obj) -> None:
        container, clock = self.container, self.sandbox.host.clock
        assert container.instance is not None
        since = (clock.now() - container.instance.started_at).total_seconds()
        await clock.sleep(max(0.0, float(spec.get("initialDelaySeconds") or 0) - since))
        streak, last = 0, None
        while True:
            awake = not self.sandbox.host.node.agents.idle
            if awake and (kind == "startupProbe" or container.startup_done):
                found = await knocks.probe(self.sandbox, container, spec)
                streak = streak + 1 if found.well == last else 1
                last = found.well
                if await self._heed(kind, spec, found, streak):
                    return
            await clock.sleep(float(spec.get("periodSeconds") or 10))

    async def _heed(self, kind: str, spec: Obj, found: knocks.Found, streak: int) -> bool:
        """Act on what a probe found the ``streak``-th time in a row; True where it need not try again."""
        container = self.container
        if not found.well:
            await self.unhealthy(container, f"{KINDS[kind]} probe failed: {found.text}")
        needed = int(spec.get("successThreshold") or 1) if found.well else int(spec.get("failureThreshold") or 3)
        if streak < needed:
            return False
        if kind == "readinessProbe":
            if container.ready != found.well:
                container.ready = found.well
                self.sandbox.host.wake()
            return False
        if found.well and kind == "startupProbe":
            container.startup_done = True
            self.sandbox.host.wake()
            return True
        if not found.well:
            why = f"Container {container.name} failed {KINDS[kind].lower()} probe, will be restarted"
            await self.failed(container, why)
            return True
        return False
