"""Redirections: descriptors of a shell in place of those it has."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

from kubesim.shell import dialects, sockets
from kubesim.shell.errors import FileError
from kubesim.shell.expand import Expander
from kubesim.shell.handles import Bytes, Handle
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Redirect
from kubesim.shell.state import ExitShell, OutOfMemory, ShellError, State
from kubesim.shell.values import Values

Result = TypeVar("Result")


class Redirects(Values):
    """What a shell does with redirections, and with what goes wrong as it expands their words."""

    expander: Expander

    def __init__(self, process: Process, dialect: str, name: str, state: State) -> None:
        super().__init__(process, dialect, name, state)
        self.unchecked = 0  # how many conditions we are inside of: set -e does not count there
        self.loops = 0
        self.calls = 0
        self.substituted = 0
        self.subshell = False

    async def _guarded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Await an expansion; its errors end the shell, or the command of an interactive one."""
        try:
            return await work
        except ShellError as error:
            await self.fault(error)

    async def fault(self, error: ShellError) -> NoReturn:
        """Print an expansion's error and leave."""
        if isinstance(error, OutOfMemory):
            await self.process.outgrow()
        name, readonly, _ = error.text.partition("\0")
        text = f"{name}: {dialects.READONLY[self.dialect]}" if readonly else error.text
        await self.complain(text)
        self.status = 1 if self.dialect == "bash" and readonly else error.status
        raise ExitShell(self.status)

    async def checked(self, status: int) -> int:
        """Leave if ``set -e`` wants that for this status."""
        self.status = status
        if status and not self.unchecked:
            if "ERR" in self.state.traps and self.dialect == "bash":
                await self.run_trap("ERR")
            if "errexit" in self.state.options:
                raise ExitShell(status)
        return status

    # redirections

    async def redirect(self, redirects: tuple[Redirect, ...], saved: list[tuple[int, Handle | None]]) -> bool:
        """Open what redirections name in place of this process's descriptors; False after a message."""
        for each in redirects:
            try:
                await self._open(each, saved)
            except FileError as error:
                creating = each.op.startswith((">", "&>"))
                await self.complain(dialects.cannot_open(self.dialect, error, creating=creating))
                return False
            except ShellError as error:
                await self.fault(error)
        return True

    async def _open(self, each: Redirect, saved: list[tuple[int, Handle | None]]) -> None:
        op = each.op
        if op in ("<<", "<<<"):
            text = await self.expander.value(each.target)
            data = (text + ("\n" if op == "<<<" else "")).encode("utf-8", "surrogateescape")
            self.put(0 if each.fd < 0 else each.fd, Bytes(data), saved)
            return
        fields = await self.expander.fields((each.target,))
        name = fields[0] if len(fields) == 1 else await self.expander.value(each.target)
        if len(fields) != 1 and self.dialect == "bash":
            raise ShellError(f"{each.source}: ambiguous redirect", 1)
        fd = each.fd if each.fd >= 0 else int(op.startswith((">", "&")))
        if op in ("<&", ">&"):
            self._duplicate(each, fd, name, saved)
            return
        mode = {"<": "r", ">>": "a", "&>>": "a", "<>": "+"}.get(op, "w")
        if mode == "w" and op == ">" and "noclobber" in self.state.options and self.is_file(name):
            raise FileError("EEXIST", name)
        socket = (
            await sockets.opened(self.process, name, self.name, self.complain) if self.dialect == "bash" else None
        )
        handle = socket or self.process.open(name, mode)
        self.put(fd, handle, saved)
        if op in ("&>", "&>>"):
            self.put(2, handle, saved)

    def _duplicate(self, each: Redirect, fd: int, name: str, saved: list[tuple[int, Handle | None]]) -> None:
        if name == "-":
            self.put(fd, None, saved)
        elif name.rstrip("-").isdecimal():
            number = int(name.rstrip("-"))
            if number not in self.process.fds:
                raise FileError("EBADF", name)
            self.put(fd, self.process.fds[number], saved)
        elif each.fd < 0 and each.op == ">&" and self.dialect == "bash":
            handle = self.process.open(name, "w")
            self.put(1, handle, saved)
            self.put(2, handle, saved)
        else:
            bad = name if self.dialect == "bash" else ""
            raise ShellError(f"{bad}: ambiguous redirect" if bad else "Bad fd number", 2)
