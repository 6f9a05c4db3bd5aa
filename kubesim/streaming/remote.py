"""Remote commands: exec and attach, over SPDY/3.1 (v4 to v1) and WebSocket (v5, v4 and older)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import orjson
from aiohttp import web

from kubesim.errors import ApiError, Obj
from kubesim.shell.machine import Stdio
from kubesim.streaming.channels import V5, Channels, check_protocols
from kubesim.streaming.hijack import Hijacked, Taken
from kubesim.streaming.pipe import Pipe
from kubesim.streaming.seam import Begin, Refused, Run, RuntimeFailure, Unreached
from kubesim.streaming.spdy import SpdyStream
from kubesim.streaming.upgrade import Pace, is_upgrade, is_websocket, negotiate_spdy, offered_protocols, refusal

SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
WITH_RESIZE = SPDY_PROTOCOLS[:2]
WITH_STATUS = (V5, "v4.channel.k8s.io")
"""What carries a Status; older protocols carry only the words of a failure."""
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
CREATION_SECONDS = 30.0
LONGEST_RESIZE = 4096
RUNNING: set[asyncio.Future[int]] = set()  # remote commands of this process
Gone = asyncio.Future[None]
Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which streams a client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def read(cls, query: Mapping[str, str]) -> Wanted:
        """Read a query; a terminal has no stream for errors of its own."""
        stdin, stdout, stderr, tty = (_truth(query.get(name)) for name in ("stdin", "stdout", "stderr", "tty"))
        return cls(stdin, stdout, stderr and not tty, tty)

    def check(self) -> None:
        """Raise ``Refused`` where nothing is asked for."""
        if not (self.stdin or self.stdout or self.stderr):
            raise Refused(400, "you must specify at least 1 of stdin, stdout, stderr")

    def channels(self) -> set[int]:
        """Return the channels of the streams asked for, with that for errors."""
        flags = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr, ERROR: True, RESIZE: self.tty}
        return {channel for channel, wanted in flags.items() if wanted}

    def stdio(self, stdin: Pipe, send: Mapping[int, Send], pace: Pace) -> Stdio:
        """Return the streams as a program sees them; what nobody asked for goes nowhere."""
        stdout = Output(send[STDOUT] if self.stdout else _nowhere, pace)
        stderr = stdout if self.tty else Output(send[STDERR] if self.stderr else _nowhere, pace)
        if not self.stdin:
            stdin.end()
        return Stdio(stdin, stdout, stderr, tty=self.tty)


@dataclass(frozen=True, slots=True)
class Command:
    """A remote command. ``doing`` stands before the runtime's own errors."""

    wanted: Wanted
    begin: Begin
    doing: str
    pace: Pace

    def start(self) -> Run:
        """Return what runs it. Raises ``Refused`` and ``Unreached``."""
        self.wanted.check()
        return self.begin()


@dataclass(frozen=True, slots=True)
class Output:
    """Where a program writes: one channel of the client."""

    send: Send
    pace: Pace

    async def write(self, data: bytes) -> None:
        """Send data at the pace that the client and its share allow."""
        if data:
            await self.send(data)
            await self.pace(len(data))


class Sizes:
    """Reads a terminal's sizes, one JSON object after another, in pieces."""

    def __init__(self, stdio: Stdio) -> None:
        self._stdio = stdio
        self._text = ""

    def feed(self, data: bytes) -> None:
        """Take a piece; the newest size counts, and what is no size is dropped."""
        self._text = (self._text + data.decode("utf-8", "replace")).lstrip()[-LONGEST_RESIZE:]
        while self._text:
            try:
                size, end = json.JSONDecoder().raw_decode(self._text)
            except (ValueError, RecursionError):
                return
            self._text = self._text[end:].lstrip()
            self._take(size)

    def _take(self, size: object) -> None:
        if isinstance(size, dict):
            rows, columns = size.get("Height"), size.get("Width")
            if isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 65536 and 0 < columns < 65536:
                self._stdio.resize(rows, columns)


async def serve(request: web.Request, command: Command) -> web.StreamResponse:
    """Serve a remote command to its end.

    Raises ``ApiError`` 400 for a request that upgrades nothing, ``Unreached`` for a kubelet that is not there.
    """
    if not is_upgrade(request):
        raise ApiError(400, "BadRequest", "Upgrade request required")
    if is_websocket(request) and V5 in offered_protocols(request):
        return await _serve_channels(request, command, None)
    try:
        run = command.start()
        if is_websocket(request):
            check_protocols(request)
            return await _serve_channels(request, command, run)
        return await _serve_spdy(request, command, run, negotiate_spdy(request, SPDY_PROTOCOLS))
    except Refused as refused:
        return refusal(refused)


def _truth(value: str | None) -> bool:
    """Read a flag of a query as the API server does: what is there and not "0" or "false" is true."""
    return value is not None and value != "0" and value.lower() != "false"


async def _nowhere(data: bytes) -> None:
    """Take what nobody asked for."""


# SPDY.


async def _serve_spdy(request: web.Request, command: Command, run: Run, protocol: str) -> web.StreamResponse:
    streams: dict[int, SpdyStream] = {}
    expected = command.wanted.channels() - (set() if protocol in WITH_RESIZE else {RESIZE})
    complete: Gone = asyncio.get_running_loop().create_future()

    def opened(stream: SpdyStream) -> str:
        channel = NAMES.get(stream.headers.get("streamtype", ""))
        if channel is not None:
            streams.setdefault(channel, stream)
        if expected <= streams.keys() and not complete.done():
            complete.set_result(None)
        return ""

    async with Hijacked(request, protocol, opened) as connection:
        gone = asyncio.ensure_future(connection.gone())
        try:
            waiting: list[Gone] = [gone, complete]
            await asyncio.wait(waiting, timeout=CREATION_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if complete.done():
                await _run_spdy(streams, command, run, protocol, gone)
        finally:
            gone.cancel()
    return Taken(status=101)


async def _run_spdy(streams: dict[int, SpdyStream], command: Command, run: Run, protocol: str, gone: Gone) -> None:
    send: dict[int, Send] = {channel: stream.write for channel, stream in streams.items()}
    stdin = streams[STDIN].incoming if STDIN in streams else Pipe()
    stdio = command.wanted.stdio(stdin, send, command.pace)
    resizing = asyncio.ensure_future(_resize(streams.get(RESIZE), stdio))
    try:
        status = await _outcome(run, stdio, command.doing, gone)
    finally:
        resizing.cancel()
    if status is not None:
        for channel in (STDOUT, STDERR):
            if channel in streams:
                streams[channel].close()
        await streams[ERROR].write(_told(status, protocol))
        streams[ERROR].close()


async def _resize(stream: SpdyStream | None, stdio: Stdio) -> None:
    """Follow the size of the client's terminal."""
    if stream is not None:
        sizes = Sizes(stdio)
        while data := await stream.read():
            sizes.feed(data)


# WebSocket.


async def _serve_channels(request: web.Request, command: Command, run: Run | None) -> web.StreamResponse:
    """Serve a client on a WebSocket; without ``run`` it is begun behind the API server's translation of v5."""
    try:
        channels = await Channels.accept(request, {STDIN})
    except web.HTTPException as error:
        return refusal(Refused(error.status, error.text or error.reason))
    lowest = min(command.wanted.channels() - {STDIN, RESIZE})
    await channels.send(lowest, b"")  # tells the client that it is connected
    status = await (_translated(channels, command) if run is None else _run_channels(channels, command, run))
    if status is not None:
        await channels.send(ERROR, _told(status, channels.protocol))
        await channels.socket.close()
    return channels.socket


async def _run_channels(channels: Channels, command: Command, run: Run) -> Obj | None:
    """Run until the program or the client ends; None where the client has gone."""
    send: dict[int, Send] = {
        STDOUT: lambda data: channels.send(STDOUT, data),
        STDERR: lambda data: channels.send(STDERR, data),
    }
    stdio = command.wanted.stdio(channels.incoming[STDIN], send, command.pace)
    sizes = Sizes(stdio)
    gone = asyncio.ensure_future(
        channels.receive(lambda channel, data: sizes.feed(data) if channel == RESIZE else None)
    )
    try:
        return await _outcome(run, stdio, command.doing, gone)
    finally:
        gone.cancel()


async def _translated(channels: Channels, command: Command) -> Obj | None:
    """Run as the API server does for v5: it is a client of the kubelet and tells failures in words of its own."""
    try:
        status = await _run_channels(channels, command, command.start())
    except Refused as refused:
        return _internal(f"unable to upgrade connection: {refused.text}")
    except Unreached as error:
        return _internal(f"error sending request: {error.asked}")
    if status is None or status["status"] == "Success":
        return status
    code = _exit_code(status)
    if code is None:
        return _internal(str(status.get("message", "")))
    return {**status, "message": f"{NON_ZERO}: command terminated with exit code {code}"}


# What comes out.

NON_ZERO = "command terminated with non-zero exit code"


async def _outcome(run: Run, stdio: Stdio, doing: str, gone: Gone) -> Obj | None:
    """Return the Status that tells a program's end; None where nobody knows it, or the client went first."""
    program = asyncio.ensure_future(run(stdio))
    either: list[asyncio.Future[int] | Gone] = [program, gone]
    RUNNING.add(program)
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return _ended(program.result()) if program.done() else None
    except RuntimeFailure as failure:
        return _internal(f"{doing}: {failure}")
    finally:
        RUNNING.discard(program)
        program.cancel()
        await asyncio.wait([program])


def _exit_code(status: Obj) -> str | None:
    """Return what a program returned; None for a failure of another kind."""
    causes = (status.get("details") or {}).get("causes") or ()
    codes = (str(cause.get("message")) for cause in causes if cause.get("reason") == "ExitCode")
    return next(codes, None) if status.get("reason") == "NonZeroExitCode" else None


def _ended(code: int) -> Obj:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"{NON_ZERO}: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _internal(text: str) -> Obj:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {text}",
        "reason": "InternalError",
        "details": {"causes": [{"message": text}]},
        "code": 500,
    }


def _told(status: Obj, protocol: str) -> bytes:
    """Return a Status as its protocol carries it."""
    if protocol in WITH_STATUS:
        return orjson.dumps(status)
    return b"" if status["status"] == "Success" else str(status.get("message", "")).encode()
