"""Probes, hooks and ends of running containers: each probe tries on its own period, each stop has its grace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubesim.clock import Clock, TooSlow, in_time
from kubesim.errors import Obj
from kubesim.kubelet import timings
from kubesim.kubelet.records import Container
from kubesim.kubelet.sandbox import Sandbox
from kubesim.network.fabric import Request, Response, Server
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.streaming.seam import RuntimeFailure

PROBE_AGENT = "kube-probe/1.34"
HEALTH = "/grpc.health.v1.Health/Check"
LONGEST_OUTPUT = 10 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a look."""

    well: bool
    text: str = ""


async def probe(sandbox: Sandbox, container: Container, spec: Obj) -> Found:
    """Try a probe once."""
    clock, seconds = sandbox.host.clock, float(spec.get("timeoutSeconds") or 1)
    if "exec" in spec:
        return await _probe_exec(sandbox, container, spec["exec"].get("command") or [], seconds)
    if "httpGet" in spec:
        return await _probe_http(sandbox, container, spec["httpGet"], seconds)
    if "tcpSocket" in spec:
        address = Address.of(sandbox, container, spec["tcpSocket"])
        return await _reached(address, clock, seconds, _nothing(sandbox, address), f"dial tcp {address}: ")
    if "grpc" in spec:
        return await _probe_grpc(sandbox, spec["grpc"], seconds)
    return Found(True)


async def _probe_exec(sandbox: Sandbox, container: Container, command: list[str], seconds: float) -> Found:
    try:
        status, out, err = await in_time(sandbox.host.clock, seconds, sandbox.run(container, command))
    except TooSlow:
        quoted = " ".join(command)
        return Found(False, f'command timed out: "{quoted}" timed out after {seconds:g}s')
    except RuntimeFailure as failure:
        return Found(False, f"rpc error: code = Unknown desc = {failure}")
    return Found(status == 0, (out + err)[:LONGEST_OUTPUT].decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Address:
    """Target of a probe or hook."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, sandbox: Sandbox, container: Container, spec: Obj) -> Address:
        """Return the address of an action; its port may be given by the name of one of the container's."""
        port = spec["port"]
        record = sandbox.worker.record
        if isinstance(port, str) and not port.isdecimal():
            named = {item.get("name"): item["containerPort"] for item in record.spec(container).get("ports") or ()}
            port = named.get(port, 0)
        return cls(spec.get("host") or record.ip, int(port))


async def _nothing(sandbox: Sandbox, address: Address) -> Response:
    """Connect and say nothing."""
    sandbox.host.fabric.find(address.host, address.port)
    return Response()


async def _reached(
    address: Address, clock: Clock, seconds: float, work: Coroutine[Any, Any, Response], before: str
) -> Found:
    """Return whether something answered; ``before`` stands before what went wrong."""
    try:
        answer = await in_time(clock, seconds, work)
    except NetworkError as error:
        return Found(False, before + REASONS[error.kind])
    except TooSlow:
        return Found(False, before.partition(": dial")[0].rstrip(": ") + ": context deadline exceeded")
    return Found(True, answer.body.decode("utf-8", "replace"))


async def _probe_http(sandbox: Sandbox, container: Container, spec: Obj, seconds: float) -> Found:
    address = Address.of(sandbox, container, spec)
    url = f"{(spec.get('scheme') or 'HTTP').lower()}://{address}{_path(spec)}"
    try:
        answer = await in_time(sandbox.host.clock, seconds, _get(sandbox, address, spec))
    except NetworkError as error:
        return Found(False, f'Get "{url}": dial tcp {address}: {REASONS[error.kind]}')
    except TooSlow:
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Found(False, f'Get "{url}": {late}')
    if 200 <= answer.status < 400:
        return Found(True)
    return Found(False, f"HTTP probe failed with statuscode: {answer.status}")


def _path(spec: Obj) -> str:
    path = spec.get("path") or "/"
    return path if path.startswith("/") else f"/{path}"


async def _get(sandbox: Sandbox, address: Address, spec: Obj) -> Response:
    """Ask a server; redirects to itself are followed."""
    headers = {"host": str(address), "user-agent": PROBE_AGENT, "accept": "*/*"}
    headers |= {item["name"].lower(): item["value"] for item in spec.get("httpHeaders") or ()}
    target, answer = _path(spec), Response()
    for _ in range(10):
        server: Server = sandbox.host.fabric.find(address.host, address.port)
        answer = await server.respond(Request("GET", target, headers, b"", sandbox.host.node.ip))
        location = answer.headers.get("Location", "")
        if answer.status not in (301, 302, 303, 307, 308) or not location.startswith("/"):
            return answer
        target = location
    return answer


async def _probe_grpc(sandbox: Sandbox, spec: Obj, seconds: float) -> Found:
    address = Address(sandbox.worker.record.ip, int(spec["port"]))
    try:
        server = sandbox.host.fabric.find(address.host, address.port)
        asked = Request("POST", HEALTH, {"user-agent": PROBE_AGENT}, (spec.get("service") or "").encode())
        answer = await in_time(sandbox.host.clock, seconds, server.respond(asked))
    except (NetworkError, TooSlow):
        text = f'timeout: failed to connect service "{address}" within {seconds:g}s: context deadline exceeded'
        return Found(False, text)
    said = answer.body.decode("utf-8", "replace")
    if answer.status != 200:
        return Found(False, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)")
    return Found(said == "SERVING", f'service unhealthy (responded with "{said}")')


async def hook(sandbox: Sandbox, container: Container, spec: Obj) -> str:
    """Run a life cycle hook and return what went wrong, if anything did."""
    if "sleep" in spec:
        await sandbox.host.clock.sleep(float(spec["sleep"].get("seconds") or 0))
        return ""
    try:
        if "exec" in spec:
            status, out, err = await sandbox.run(container, spec["exec"].get("command") or [])
            return f"command exited with {status}: {(out + err).decode('utf-8', 'replace')}" if status else ""
        if "httpGet" in spec:
            answer = await _get(sandbox, Address.of(sandbox, container, spec["httpGet"]), spec["httpGet"])
            return "" if 200 <= answer.status < 400 else f"HTTP status {answer.status}"
    except RuntimeFailure as failure:
        return str(failure)
    except NetworkError as error:
        return REASONS[error.kind]
    return ""


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
                found = await probe(self.sandbox, container, spec)
                streak = streak + 1 if found.well == last else 1
                last = found.well
                if await self._heed(kind, spec, found, streak):
                    return
            await clock.sleep(float(spec.get("periodSeconds") or 10))

    async def _heed(self, kind: str, spec: Obj, found: Found, streak: int) -> bool:
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


SIGKILL_CODE = 137
LEAST_GRACE_S = 2.0
"""Seconds left for the process itself after a hook has used up the grace."""
Warn = Callable[[Container, str, str], Awaitable[None]]


class Stops:
    """The containers of one pod that are being stopped. ``warn`` records an event."""

    __slots__ = ("_deadlines", "_hooks", "_sandbox", "_warn")

    def __init__(self, sandbox: Sandbox, warn: Warn) -> None:
        self._sandbox = sandbox
        self._warn = warn
        self._deadlines: dict[str, datetime] = {}
        self._hooks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, container: Container) -> bool:
        """Tell whether a container is being stopped."""
        return container.name in self._deadlines

    def begin(self, container: Container, deadline: datetime, *, graceful: bool) -> None:
        """Stop a container by ``deadline`` at the latest."""
        self._deadlines[container.name] = deadline
        hook = (self._sandbox.worker.record.spec(container).get("lifecycle") or {}).get("preStop")
        if hook and graceful:
            self._hooks[container.name] = asyncio.ensure_future(self._after_hook(container, hook))
        elif graceful:
            self._terminate(container)

    async def _after_hook(self, container: Container, spec: dict[str, object]) -> None:
        left = (self._deadlines[container.name] - self._sandbox.host.clock.now()).total_seconds()
        try:
            failure = await in_time(self._sandbox.host.clock, left, hook(self._sandbox, container, spec))
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
        """Return the moment at which a container is killed; None where nobody stops it."""
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
