"""The smallest programs: true, false, echo, cat."""

from __future__ import annotations

from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process


async def true(process: Process) -> int:
    """Do nothing, successfully."""
    return 0


async def false(process: Process) -> int:
    """Do nothing, unsuccessfully."""
    return 1


async def echo(process: Process) -> int:
    """Print the arguments."""
    await process.write(" ".join(process.argv[1:]) + "\n")
    return 0


async def cat(process: Process) -> int:
    """Copy files, or standard input, to standard output."""
    status = 0
    for name in process.argv[1:] or ["-"]:
        try:
            handle = process.fds[0] if name == "-" else process.open(name)
            while data := await handle.read(65536):
                await process.write(data)
        except FileError as error:
            status = await process.fail(f"{name}: {error.text}")
    return status


TOOLS = {"true": true, "false": false, "echo": echo, "cat": cat}
