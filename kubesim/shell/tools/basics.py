"""The smallest programs: true, echo, printf, test, yes."""

from __future__ import annotations

import re

from kubesim.shell import conditions, printf
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit


async def true(process: Process) -> int:
    """Succeed."""
    return 0


async def false(process: Process) -> int:
    """Fail."""
    return 1


async def echo(process: Process) -> int:
    """Print the arguments."""
    args, newline, escaped = process.argv[1:], True, False
    while args and re.fullmatch(r"-[neE]+", args[0]):
        newline = newline and "n" not in args[0]
        escaped = escaped or "e" in args[0]
        args = args[1:]
    text, stop = printf.escapes(" ".join(args), echo=True) if escaped else (" ".join(args), False)
    await process.write(text + ("\n" if newline and not stop else ""))
    return 0


async def printf_(process: Process) -> int:
    """Print formatted arguments."""
    if len(process.argv) < 2:
        await kit.usage(process, "missing operand")
    formatter = printf.Formatter(process.argv[1], process.argv[2:], quoting=True, now=process.machine.now)
    try:
        await process.write(formatter.text())
    except printf.FormatError as error:
        return await process.fail(f"{error}: invalid conversion specification")
    for word in formatter.problems:
        await process.fail(f"'{word}': expected a numeric value")
    return int(bool(formatter.problems))


async def test(process: Process) -> int:
    """Evaluate a condition."""
    args = process.argv[1:]
    if process.name == "[":
        if args[-1:] != ["]"]:
            return await process.fail("missing ']'", 2)
        args = args[:-1]
    try:
        return int(not await conditions.single(process, args))
    except conditions.TestError as error:
        return await process.fail(error.text(), 2)


async def yes(process: Process) -> int:
    """Print a word again and again."""
    if process.argv[1:2] and process.argv[1].startswith("--") and len(process.argv[1]) > 2:
        await kit.usage(process, f"unrecognized option '{process.argv[1]}'")
    line = " ".join(process.argv[1:] or ["y"]) + "\n"
    block = (line * (4096 // len(line) + 1)).encode("utf-8", "surrogateescape")
    while True:
        await process.write(block)
        await process.tick(8)


TOOLS = kit.named(true, false, echo, printf_, test, yes) | {"[": test}
