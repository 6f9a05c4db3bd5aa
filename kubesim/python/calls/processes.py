"""Processes: starting programs of the container, waiting for them, signals, who and where a program is."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from kubesim.clock import first
from kubesim.python.calls.registry import GuestError, Over, blocking, call, state
from kubesim.shell.errors import BrokenPipe, FileError, StartError
from kubesim.shell.handles import CHUNK, Handle, Outside
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.programs import NOT_EXECUTABLE, find
from kubesim.shell.signals import NAMES

ECHILD = 10
MAX_OUTPUT = 64 << 20


@call
async def exit_(process: Process, status: int) -> None:
    """End at once, as _exit(2) does."""
    raise Over(status & 255)


@call
async def outgrow(process: Process) -> None:
    """Hold more memory than may be held: the kernel ends the program."""
    await process.outgrow()


@call
async def cpu_time(process: Process) -> float:
    """Return the seconds that the program has computed."""
    return state(process).computed()


@call
async def getppid(process: Process) -> int:
    """Return the parent's number."""
    return process.parent


@call
async def spawn(
    process: Process, argv: list[str], fds: dict[str, int], cwd: str | None, env: dict[str, str] | None, group: bool
) -> int:
    """Start a program with these descriptors; returns its number."""
    if not argv:
        raise FileError("EINVAL")
    known = process.env if env is None else env
    view = replace(process.view)
    if cwd is not None:
        view.cwd = view.place(cwd).path
        view.directory(cwd)
    try:
        program = find(view, argv, known.get("PATH", DEFAULT_PATH))
    except StartError as error:
        raise FileError(_code(error), argv[0]) from error
    kept = {int(number): fd for number, fd in fds.items() if int(number) != fd or fd in process.fds}
    handles = {number: _handle(process, fd) for number, fd in kept.items()}
    child = process.child(program, env=known, fds=handles)
    child.view = view
    if group:
        child.group = child.pid
    state(process).children[child.pid] = child
    child.start(process.machine.tools[program.tool])
    return child.pid


def _code(error: StartError) -> str:
    if error.text == "Exec format error":
        return "ENOEXEC"
    return "EACCES" if error.code == NOT_EXECUTABLE else "ENOENT"


def _handle(process: Process, fd: int) -> Handle:
    if fd not in process.fds:
        raise FileError("EBADF")
    return process.fds[fd]


@blocking
async def waitpid(process: Process, pid: int, wait: bool, until: float | None = None) -> list[int]:
    """Wait for a child, or any (-1), at most until a moment; returns number and wait status, 0 while it runs."""
    children = state(process).children
    chosen = [children[pid]] if pid in children else list(children.values()) if pid == -1 else []
    if not chosen:
        raise GuestError("ChildProcessError", ECHILD, "No child processes")
    if wait and all(child.status is None for child in chosen):
        await _ended(process, chosen, until)
    for child in chosen:
        if child.status is not None:
            del children[child.pid]
            return [child.pid, child.status << 8 if child.status < 128 else _killed(child)]
    return [0, 0]


def _killed(child: Process) -> int:
    """Return the wait status of a large exit status: that of a signal, where one has ended it."""
    status = child.status or 0
    return status - 128 if child.fatal else status << 8


async def _ended(process: Process, chosen: list[Process], until: float | None) -> None:
    timer = [_sleep(process, until)] if until is not None else []
    await first(*(child.ended.wait() for child in chosen), *timer)


async def _sleep(process: Process, until: float) -> None:
    await process.sleep(max(until - process.machine.now(), 0.0))


@call
async def kill(process: Process, pid: int, number: int) -> None:
    """Send a signal."""
    if number and number not in NAMES:
        raise FileError("EINVAL")
    try:
        if number:
            process.machine.kill(pid or -process.group, NAMES[number])
        elif pid not in process.machine.all():
            raise KeyError(pid)
    except KeyError as error:
        raise GuestError("ProcessLookupError", 3, "No such process") from error
    await asyncio.sleep(0)


@call
async def handle_signal(process: Process, number: int, way: str) -> None:
    """Let a signal be handled by the program (``own``), be ignored, or have its usual effect."""
    if number not in NAMES:
        raise FileError("EINVAL")
    name = NAMES[number]
    if way == "own":
        process.handlers[name] = state(process).signal
    elif way == "ignore":
        process.handlers[name] = None
    else:
        process.handlers.pop(name, None)


@blocking
async def communicate(process: Process, fds: list[int | None], data: str, until: float | None) -> list[object]:
    """Write everything to the first descriptor while the other two are read to their ends; whether all was done."""
    given, out, err = fds
    read: dict[int, bytearray] = {fd: bytearray() for fd in (out, err) if fd is not None}
    works = [asyncio.ensure_future(_drain(process, fd, kept)) for fd, kept in read.items()]
    if given is not None:
        works.append(asyncio.ensure_future(_feed(process, given, data.encode("latin-1"))))
    timer = None if until is None else asyncio.ensure_future(_sleep(process, until))
    try:
        whole = asyncio.ensure_future(asyncio.wait(works)) if works else None
        if whole is not None:
            await asyncio.wait([whole, *([timer] if timer else [])], return_when=asyncio.FIRST_COMPLETED)
        done = all(each.done() for each in works)
    finally:
        for each in [*works, *([timer] if timer else [])]:
            each.cancel()
    texts = [bytes(read.get(fd, b"") if fd is not None else b"").decode("latin-1") for fd in (out, err)]
    return [*texts, done]


async def _drain(process: Process, fd: int, kept: bytearray) -> None:
    while data := await _handle(process, fd).read(CHUNK):
        kept += data
        if len(kept) > MAX_OUTPUT:
            raise GuestError("MemoryError")


async def _feed(process: Process, fd: int, data: bytes) -> None:
    try:
        await _handle(process, fd).write(data)
    except BrokenPipe:
        return
    finally:
        if fd in process.fds:  # the reader sees the end; the program itself closes its descriptor
            process.fds[fd].release()
            process.fds[fd] = Outside().share()
