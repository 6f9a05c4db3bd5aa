"""``terraform`` in containers: a confined process interprets, and this side gives it what its pod has."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubesim.clock import outside
from kubesim.shell.errors import REASONS, FileError, NetworkError
from kubesim.shell.files import Directory, File
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import resolve
from kubesim.shell.tools import web
from kubesim.terraform.state import VERSION
from kubesim.terraform.worker import HARD_CPU_S

WORKER = Path(__file__).with_name("worker.py")
MAX_LINE, MAX_FILE, MAX_NAMES, MAX_CACHED = 16 << 20, 1 << 20, 2000, 16 << 20
CONNECT_S = 30.0
KILLED = "terraform: the configuration takes more time or memory than practice clusters grant\n"
NOTHING = subprocess.DEVNULL
_files: OrderedDict[str, str] = OrderedDict()
"""Files that have been parsed, as JSON, by their text's digest: MAX_CACHED characters, those of longest ago go."""


class Workers:
    """The parent of this cluster's workers: it reads all modules once, and forks one for each command."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._parent: subprocess.Popen[bytes] | None = None

    def connect(self) -> socket.socket:
        """Return the socket of a new worker."""
        ours, theirs = socket.socketpair()
        with theirs:
            if not self._send(theirs):
                self._start()
                self._send(theirs)
        return ours

    def _send(self, theirs: socket.socket) -> bool:
        """Hand the parent a socket; False where there is none (any more)."""
        with contextlib.suppress(OSError):
            return self._channel is not None and bool(socket.send_fds(self._channel, [b"+"], [theirs.fileno()]))
        return False

    def _start(self) -> None:
        """Start the parent, with no more of the host's packages than it needs."""
        spec = importlib.util.find_spec("hcl2")
        packages = Path(spec.origin).parent.parent if spec is not None and spec.origin else Path()
        self.close()
        self._channel, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            words = [sys.executable, "-I", "-S", str(WORKER), str(number), str(WORKER.parents[2]), str(packages)]
            self._parent = subprocess.Popen(  # noqa: S603 - fixed words
                words, stdin=NOTHING, stdout=NOTHING, stderr=NOTHING, env={}, pass_fds=[number]
            )

    def close(self) -> None:
        """Give up a parent that takes no more sockets, and leave no zombie of it."""
        if self._channel is not None:
            self._channel.close()
        if self._parent is not None:
            self._parent.kill()
            self._parent.wait()


workers = Workers()


async def terraform(process: Process) -> int:
    """Run Terraform."""
    asked = process.argv[1:] in (["version"], ["-version"], ["--version"], ["-v"])
    if asked and process.view.find(".terraform.lock.hcl") is None:
        await process.write(f"Terraform v{process.env.get('TERRAFORM_VERSION') or VERSION}\non linux_amd64\n")
        return 0
    return await _Run(process).run()


class _Run:
    """One run: the worker's questions, answered from inside the pod."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.used, self.status = HARD_CPU_S, 1
        self.interrupted = False
        self._addresses: dict[str, str] = {}
        self._typing: asyncio.Task[str | None] | None = None

    def interrupt(self, name: str) -> None:
        """Let the worker save its state and give up the lock; the second time, end."""
        if self.interrupted:
            self.process.die(name)
        self.interrupted = True
        if self._typing is not None:
            self._typing.cancel()

    async def run(self) -> int:
        try:
            async with self.process.machine.share.terraforms:
                ended = await self._work()
        finally:
            self.process.machine.computing.spend(time.perf_counter(), self.used)
        if not ended:
            await self.process.error(KILLED)
        return self.status

    async def _work(self) -> bool:
        self.process.handlers["INT"] = self.process.handlers["TERM"] = self.interrupt
        reader, writer = await asyncio.open_connection(sock=workers.connect(), limit=MAX_LINE)
        try:
            return await self._talk(reader, writer)
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve the worker until it ends; False where it was killed by its limits."""
        terminal = self.process.tty(1)
        request = {
            "argv": self.process.argv[1:], "folder": self.process.cwd, "environment": dict(self.process.env),
            "width": terminal.size[1] if terminal else 78,
        }  # fmt: skip
        await self._send(writer, request)
        try:
            while line := await outside(reader.readline()):
                kind, *given = json.loads(line)
                if kind == "end":
                    self.status, self.used = given
                    return True
                answer: Callable[..., Awaitable[Any]] = getattr(self, f"_{kind}")
                found = await answer(*given)
                if kind not in ("out", "err", "parsed"):
                    await self._send(writer, [found, self.interrupted])
        except ValueError:  # a line longer than MAX_LINE, or cut off when the worker was killed
            return False
        return False

    async def _send(self, writer: asyncio.StreamWriter, found: Any) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(found).encode() + b"\n")
            await writer.drain()

    async def _out(self, text: str) -> None:
        await self.process.write(text)
        await self.process.flush()

    async def _err(self, text: str) -> None:
        await self.process.error(text)

    async def _ask(self) -> str | None:
        if self.interrupted:
            return None
        typing = self._typing = asyncio.ensure_future(self._typed())
        try:
            await asyncio.wait([typing])
        finally:
            typing.cancel()
            self._typing = None
        return None if typing.cancelled() else typing.result()

    async def _typed(self) -> str | None:
        data = b""
        while not data.endswith(b"\n") and len(data) < 4096 and (more := await self.process.read(1)):
            data += more
        return data.decode("utf-8", "replace").strip() if data else None

    async def _wait(self, seconds: int) -> None:
        await self.process.sleep(seconds)

    async def _names(self, path: str) -> list[str] | None:
        node = self.process.view.find(path)
        if not isinstance(node, Directory) or not self.process.view.may(node, 4):
            return None
        return node.names()[:MAX_NAMES]

    async def _read(self, path: str) -> str | None:
        try:
            node = self.process.view.node(path)
            if not isinstance(node, File) or not self.process.view.may(node, 4) or len(node.content()) > MAX_FILE:
                return None
            return bytes(node.content()).decode("utf-8", "replace")
        except FileError:
            return None

    async def _real(self, path: str) -> str:
        """Return where a path leads through links."""
        with contextlib.suppress(FileError):
            return self.process.view.place(path).path
        return path

    async def _body(self, path: str) -> Any:
        text = await self._read(path)
        if text is None:
            return None
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest in _files:
            _files.move_to_end(digest)
        return {"text": text, "digest": digest, "body": json.loads(_files.get(digest, "null"))}

    async def _parsed(self, digest: str, body: Any) -> None:
        _files[digest] = json.dumps(body)
        while sum(map(len, _files.values())) > MAX_CACHED:
            _files.popitem(last=False)

    async def _write(self, path: str, text: str) -> str | None:
        view = self.process.view
        try:
            folder = path.rpartition("/")[0]
            made: list[str] = []
            while folder and view.find(folder) is None:
                made.append(folder)
                folder = folder.rpartition("/")[0]
            for each in reversed(made):
                view.mkdir(each, 0o755)
            view.write(path, text.encode())
        except FileError as error:
            return error.text
        return None

    async def _http(self, method: str, url: str, headers: dict[str, str], body: str) -> tuple[int, str]:
        host = urlsplit(url).hostname or ""
        try:
            if host not in self._addresses:  # Terraform keeps its connections
                self._addresses[host] = (await resolve(self.process, host))[0]
            address, data = self._addresses[host], body.encode()
            status, _, data = await web.request(self.process, method, url, headers, data, CONNECT_S, address)
        except NetworkError as error:
            return 0, await self._why(url, error)
        return status, data.decode("utf-8", "replace")

    async def _why(self, url: str, error: NetworkError) -> str:
        host, _, port = url.split("/")[2].partition(":")
        if error.kind in ("nxdomain", "again"):
            return f"dial tcp: lookup {host}: no such host"
        address = self._addresses.get(host, host)
        return f"dial tcp {address}:{port or 443}: {REASONS.get(error.kind, REASONS['unreachable'])}"


TOOLS: dict[str, Tool] = {"terraform": terraform}
