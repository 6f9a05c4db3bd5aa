"""Builtins that steer: exit, return, break, eval, exec, ``.``, trap, test, true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.shell import conditions
from kubesim.shell.errors import FileError
from kubesim.shell.programs import search
from kubesim.shell.quoting import quote
from kubesim.shell.signals import LISTING, NAMES, NUMBERS, number
from kubesim.shell.state import BreakLoop, ExitShell, ReturnFrom, ShellError, options
from kubesim.shell.tools import kit

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

MOST_SOURCED = 20


async def true(shell: Shell, argv: list[str]) -> int:
    """Succeed."""
    return 0


async def false(shell: Shell, argv: list[str]) -> int:
    """Fail."""
    return 1


async def _count(shell: Shell, word: str) -> int:
    """Read a number; raises ShellError in the shell's words."""
    if word.lstrip("+-").isdecimal() and len(word) < 12:
        return int(word)
    raise ShellError(f"{word}: numeric argument required", 2)


async def exit_(shell: Shell, argv: list[str]) -> int:
    """Leave the shell."""
    if shell.interactive and not shell.subshell:
        await shell.process.error("exit\n")
        if not shell.warned and any(job.state == "Stopped" for job in shell.jobs.table.values()):
            await shell.process.error("There are stopped jobs.\n")
            shell.warned = True
            return 1
    try:
        status = await _count(shell, argv[1]) if len(argv) > 1 else shell.status
    except ShellError as error:
        await shell.complain(error.text, argv[0])
        status = 2
    shell.leaving = True
    raise ExitShell(status)


async def return_(shell: Shell, argv: list[str]) -> int:
    """Leave a function or a sourced file."""
    status = await _count(shell, argv[1]) if len(argv) > 1 else shell.status
    if not shell.calls and not shell.sourced:
        raise ShellError("can only `return' from a function or sourced script", 2)
    raise ReturnFrom(status & 255)


async def break_(shell: Shell, argv: list[str]) -> int:
    """Leave loops, or begin the next turn."""
    count = await _count(shell, argv[1]) if len(argv) > 1 else 1
    if count < 1:
        raise ShellError(f"{argv[1]}: loop count out of range", 1)
    if not shell.loops:
        raise ShellError("only meaningful in a `for', `while', or `until' loop", 0)
    raise BreakLoop(min(count, shell.loops), again=argv[0] == "continue")


async def eval_(shell: Shell, argv: list[str]) -> int:
    """Run the arguments as a script."""
    text = " ".join(argv[1:])
    return await shell.eval(text, "eval") if text.strip() else 0


async def exec_(shell: Shell, argv: list[str]) -> int:
    """Become another program."""
    _, args = options(argv, "cla:", "[-cl] [-a name] [command [argument ...]] [redirection ...]")
    if not args:
        return 0
    try:
        search(shell.process.view, args[0], shell.state.get("PATH") or "") if "/" not in args[0] else None
    except FileError:
        await shell.complain(f"{args[0]}: not found", argv[0])
        shell.leaving = not shell.interactive
        raise ExitShell(127) from None
    program = await shell.program(args)
    if program is None:
        raise ExitShell(shell.status)
    shell.leaving = True
    return await shell.become(program, shell.state.environment())


async def source(shell: Shell, argv: list[str]) -> int:
    """Run a file in this shell."""
    if len(argv) < 2:
        raise ShellError(f"filename argument required\n{argv[0]}: usage: {argv[0]} filename [arguments]", 2)
    try:
        text = await _read_source(shell, argv[1])
    except FileError as error:
        await shell.complain(f"{argv[1]}: {error.text}")
        return 1
    if shell.sourced >= MOST_SOURCED:
        raise ShellError(f"{argv[1]}: maximum source nesting level exceeded ({MOST_SOURCED})", 1)
    positional = shell.state.positional
    given = len(argv) > 2
    shell.state.positional = argv[2:] if given else positional
    shell.sourced += 1
    try:
        return await shell.eval(text, argv[1])
    except ReturnFrom as back:
        return back.status
    finally:
        shell.sourced -= 1
        shell.state.positional = positional if given else shell.state.positional


async def _read_source(shell: Shell, name: str) -> str:
    """Return the text of a file, which may lie in PATH; raises FileError."""
    folders = (shell.state.get("PATH") or "").split(":") if "/" not in name else []
    path = next((f"{folder}/{name}" for folder in folders if shell.is_file(f"{folder}/{name}")), name)
    if path.startswith("/dev/"):
        data = await kit.everything(shell.process, shell.process.open(path))
    else:
        data = shell.process.view.read(path)
    return data.decode("utf-8", "surrogateescape")


async def trap(shell: Shell, argv: list[str]) -> int:
    """Set what runs on signals and at the end."""
    args = argv[1:]
    if args[:1] == ["--"]:
        args = args[1:]
    if args[:1] == ["-l"]:
        await shell.process.write(LISTING)
        return 0
    if not args or args[0] == "-p":
        for name, text in shell.state.traps.items():
            prefix = "SIG" if name in NUMBERS else ""
            await shell.process.write(f"trap -- {quote(text, always=True)} {prefix}{name}\n")
        return 0
    action: str | None = args[0]
    names = args[1:]
    if len(args) == 1 or args[0].isdecimal():
        action, names = None, args
    elif action == "-":
        action = None
    status = 0
    for word in names:
        status = await _set_trap(shell, word, action) or status
    return status


async def _set_trap(shell: Shell, word: str, action: str | None) -> int:
    value = number(word)
    name = NAMES.get(value, "EXIT") if value is not None else word.upper().removeprefix("SIG")
    if value is None and name not in ("EXIT", "ERR"):
        await shell.complain(f"{word}: invalid signal specification", "trap")
        return 1
    if action is None:
        shell.state.traps.pop(name, None)
    else:
        shell.state.traps[name] = action
    if value:
        shell.arm(name)
    return 0


async def test(shell: Shell, argv: list[str]) -> int:
    """Evaluate a condition."""
    args = argv[1:]
    if argv[0] == "[":
        if args[-1:] != ["]"]:
            raise ShellError("missing `]'", 2)
        args.pop()
    try:
        return int(not await conditions.single(shell.process, args, shell))
    except conditions.TestError as error:
        raise ShellError(error.text(), 2) from error


async def shift(shell: Shell, argv: list[str]) -> int:
    """Drop positional parameters."""
    count = await _count(shell, argv[1]) if len(argv) > 1 else 1
    if count < 0 or count > len(shell.state.positional):
        return 1
    del shell.state.positional[:count]
    return 0
