"""The front's side of the fork server: processes of clusters, their ends, and what they answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from kubesim.errors import Obj
from kubesim.heartbeat import SharedPage

MAX_LINE = 4 << 20


class HostError(Exception):
    """A control request, or a cluster, that cannot be: the HTTP code and a sentence that says what to do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProcessGone(Exception):
    """The process has ended, or does not answer in time."""


class Process:
    """A cluster's process as the front sees it."""

    def __init__(self, number: int, folder: Path, send: Callable[[Obj], None]) -> None:
        self.number = number
        self.pid = 0
        self.api = str(folder / f"{number}.api")
        self.page = SharedPage.create(folder / f"{number}.page")
        self.forked = asyncio.Event()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit status, negative for a signal."""
        self._files = [folder / f"{number}.{name}" for name in ("api", "control", "page")]
        self._send = send

    def signal(self, number: int) -> None:
        """Send a signal; nothing where it has ended."""
        if not self.ended.done():
            self._send({"signal": self.number, "number": int(number)})

    async def call(self, name: str, *arguments: Any, seconds: float | None = None) -> Any:
        """Return what the process answers. Raises HostError, and ProcessGone."""
        try:
            async with asyncio.timeout(seconds):
                return await self._call(name, arguments)
        except (TimeoutError, OSError, ValueError) as error:
            raise ProcessGone from error

    async def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        await self.forked.wait()
        reader, writer = await asyncio.open_unix_connection(str(self._files[1]), limit=MAX_LINE)
        try:
            writer.write(orjson.dumps({"call": name, "arguments": arguments}) + b"\n")
            answer = orjson.loads(await reader.readline())
        finally:
            writer.close()
        if "error" in answer:
            raise HostError(*answer["error"])
        return answer["answer"]

    def clear(self) -> None:
        """Remove its files."""
        self.page.close()
        for path in self._files:
            path.unlink(missing_ok=True)


class Processes:
    """Every process that was asked for and has not ended."""

    def __init__(self, folder: Path) -> None:
        self.on_stop: Callable[[], object] = lambda: None
        """Called when the host is to end."""
        self._folder = folder
        self._numbers = itertools.count(1)
        self._running: dict[int, Process] = {}
        self._writer: asyncio.StreamWriter
        self._task: asyncio.Task[None]

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with the fork server from now on."""
        self._writer = writer
        self._task = asyncio.create_task(self._listen(reader), name="fork server")

    def fork(self, job: Obj) -> Process:
        """Return a new process that does a job, and is about to be forked."""
        process = Process(next(self._numbers), self._folder, self._send)
        self._running[process.number] = process
        page = str(self._folder / f"{process.number}.page")
        self._send({"fork": process.number, "job": {**job, "page": page}})
        return process

    def _send(self, message: Obj) -> None:
        self._writer.write(orjson.dumps(message) + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Take in what the fork server tells; where it is gone, nothing here can go on."""
        with suppress(ConnectionError):
            while line := await reader.readline():
                self._take(orjson.loads(line))
        self.on_stop()

    def _take(self, told: Obj) -> None:
        if "forked" in told:
            process = self._running[told["forked"]]
            process.pid = told["pid"]
            process.forked.set()
        elif "ended" in told:
            process = self._running.pop(told["ended"])
            process.clear()
            process.ended.set_result(told["status"])
        else:
            self.on_stop()
