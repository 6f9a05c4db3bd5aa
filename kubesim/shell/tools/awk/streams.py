"""What an awk program reads and writes: its files, and the commands it runs."""

from __future__ import annotations

import re
from typing import Any

from kubesim.shell.errors import FileError, Leave, StartError
from kubesim.shell.handles import Capture, Handle, Pipe
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.awk.parse import Parser
from kubesim.shell.tools.awk.state import State
from kubesim.shell.tools.awk.tokens import unescape
from kubesim.shell.tools.awk.values import LONGEST, AwkError, given, number


class Input:
    """Records of a stream."""

    def __init__(self, process: Process, data: str, handle: Handle | None = None) -> None:
        self.process = process
        self.data = data
        self.handle = handle
        self.at = 0

    async def line(self, separator: str) -> str | None:
        """Return the next record, None at the end."""
        end = {"": "\n\n"}.get(separator, separator[:1])
        while True:
            if separator == "":
                while self.data.startswith("\n", self.at):
                    self.at += 1
            found = self.data.find(end, self.at)
            if found >= 0:
                line, self.at = self.data[self.at : found], found + len(end)
                return line
            if not await self._more():
                rest = self.data[self.at :].removesuffix("\n") if separator in ("", "\n") else self.data[self.at :]
                empty = self.at >= len(self.data) or separator == "" and not rest.strip("\n")
                self.at = len(self.data)
                return None if empty else rest

    async def _more(self) -> bool:
        if self.handle is None:
            return False
        await self.process.flush()
        data = await self.handle.read_for(self.process, 65_536)
        self.data = self.data[self.at :] + kit.text(data)
        self.at = 0
        if len(self.data) > kit.MOST_DATA:
            raise AwkError("record too long")
        return bool(data)


class Streams(State):
    """Inputs and outputs of one run."""

    def __init__(self, process: Process, program: Parser) -> None:
        super().__init__(process, program)
        self.outputs: dict[str, tuple[Handle, Any]] = {}
        self.inputs: dict[str, Input] = {}
        self.main: Input | None = None
        self.names: list[str] = []
        self.status = 0

    async def input(self, op: str, name: str) -> Input | None:
        if name not in self.inputs:
            if op == "|":
                capture = Capture(LONGEST)
                await self.process.flush()
                fds = {**self.process.fds, 1: capture}
                try:
                    await self.process.run(["sh", "-c", name], fds=fds).wait()
                except StartError:
                    return None
                self.inputs[name] = Input(self.process, kit.text(capture.data))
            else:
                try:
                    handle = self.process.fds[0] if name == "-" else self.process.open(name)
                    self.inputs[name] = Input(self.process, kit.text(await kit.everything(self.process, handle)))
                except FileError:
                    return None
        return self.inputs[name]

    async def read_main(self) -> str | None:
        while True:
            if self.main is None and not await self._open_next():
                return None
            assert self.main is not None
            line = await self.main.line(str(self.globals["RS"]))
            if line is not None:
                self.globals["FNR"] = number(self.globals["FNR"]) + 1
                return line
            self.main = None

    async def _open_next(self) -> bool:
        while self.names:
            name = self.names.pop(0)
            match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", name, re.DOTALL)
            if match:
                self.globals[match[1]] = given(unescape(match[2]))
                continue
            try:
                handle = self.process.fds[0] if name == "-" else self.process.open(name)
            except FileError as error:
                raise Leave(await self.process.fail(f'cannot open "{name}" ({error.text})', 2)) from error
            self.main = Input(self.process, "", handle)
            self.globals["FILENAME"] = name if name != "-" else ""
            self.globals["FNR"] = 0.0
            return True
        return False

    async def output(self, op: str, name: str) -> Handle:
        if name in self.outputs:
            return self.outputs[name][0]
        if op == "|":
            pipe = Pipe()
            await self.process.flush()
            child = self.process.run(["sh", "-c", name], fds={**self.process.fds, 0: pipe.reader})
            self.outputs[name] = (pipe.writer.share(), child)
        else:
            try:
                handle = self.process.open(name, "w" if op == ">" else "a").share()
            except FileError as error:
                raise AwkError(f'cannot open "{name}" for output ({error.text})') from error
            self.outputs[name] = (handle, None)
        return self.outputs[name][0]

    async def close(self, name: str) -> int:
        """Close an output and wait for its command."""
        if name not in self.outputs:
            return -1
        handle, child = self.outputs.pop(name)
        handle.release()
        return await child.wait() if child else 0
