"""How running containers are stopped: the hook before, the signal, the grace, and the kill at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from kubesim.clock import TooSlow, in_time
from kubesim.kubelet import probes, timings
from kubesim.kubelet.records import Container
from kubesim.kubelet.sandbox import Sandbox

SIGKILL_CODE = 137
LEAST_GRACE_S = 2.0
"""What is left for the process itself after a hook has used up the grace."""
Tell = Callable[[Container, str, str], Awaitable[None]]


class Stops:
    """The containers of one pod that are being stopped. ``warn`` records an event."""

    __slots__ = ("_deadlines", "_hooks", "_sandbox", "_warn")

    def __init__(self, sandbox: Sandbox, warn: Tell) -> None:
        self._sandbox = sandbox
        self._warn = warn
        self._deadlines: dict[str, datetime] = {}
        self._hooks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, container: Container) -> bool:
        """Whether a container is being stopped."""
        return container.name in self._deadlines

    def begin(self, container: Container, deadline: datetime, *, graceful: bool) -> None:
        """Stop a container by ``deadline`` at the latest."""
        self._deadlines[container.name] = deadline
        hook = (self._sandbox.worker.record.spec(container).get("lifecycle") or {}).get("preStop")
        if hook and graceful:
            self._hooks[container.name] = asyncio.ensure_future(self._after_hook(container, hook))
        elif graceful:
            self._terminate(container)

    async def _after_hook(self, container: Container, hook: dict[str, object]) -> None:
        left = (self._deadlines[container.name] - self._sandbox.host.clock.now()).total_seconds()
        try:
            failure = await in_time(self._sandbox.host.clock, left, probes.hook(self._sandbox, container, hook))
        except TooSlow:
            failure = "timed out"
        if failure:
            await self._warn(container, "FailedPreStopHook", "PreStopHook failed")
        least = self._sandbox.host.clock.now() + timedelta(seconds=LEAST_GRACE_S)
        if container.name in self._deadlines:
            self._deadlines[container.name] = max(self._deadlines[container.name], least)
            self._terminate(container)
        self._sandbox.host.wake()

    def _terminate(self, container: Container) -> None:
        """Send SIGTERM; a computed process that heeds it ends soon."""
        if self._sandbox.real(container):
            self._sandbox.signal(container, "TERM")
            return
        program = self._sandbox.worker.program(container)
        if program.term_code is not None:
            soon = self._sandbox.host.clock.now() + timedelta(seconds=timings.KILL_S + program.term_after)
            self._deadlines[container.name] = min(soon, self._deadlines[container.name])

    def hasten(self, deadline: datetime) -> None:
        """Allow less time than before."""
        self._deadlines = {name: min(due, deadline) for name, due in self._deadlines.items()}

    def due(self, container: Container) -> datetime | None:
        """When a container is killed; None where nobody stops it."""
        return self._deadlines.get(container.name)

    def done(self, container: Container) -> None:
        """Forget a container that has ended."""
        self._deadlines.pop(container.name, None)
        hook = self._hooks.pop(container.name, None)
        if hook is not None:
            hook.cancel()

    def code(self, container: Container) -> int:
        """Return the exit code of a container that ends by our doing: killed, or as it heeds SIGTERM."""
        if self._sandbox.real(container):
            return SIGKILL_CODE
        code = self._sandbox.worker.program(container).term_code
        return SIGKILL_CODE if code is None else code
