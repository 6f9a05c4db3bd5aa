"""Programs for the terminal one types at: watch, man, clear, tty, tput, stty."""

from __future__ import annotations

import re

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.dates import strftime
from kubesim.shell.tools.runners import seconds
from kubesim.shell.tools.xargs import run


async def watch(process: Process) -> int:
    """Run a program every few seconds and show its output."""
    opts = await kit.options(process)
    if not opts.args:
        await kit.usage(process, "missing command")
    every = max(seconds(opts.get("n", "2")) or 2.0, 0.1)
    command = " ".join(opts.args)
    while True:
        terminal = process.tty(1)
        if terminal:
            await process.write("\x1b[H\x1b[J")
        if "t" not in opts:
            left = f"Every {every:.1f}s: {command}"
            right = f"{process.machine.hostname}: {strftime(process.machine.clock.now(), '%a %b %e %H:%M:%S %Y')}"
            wide = terminal.size[1] if terminal else 80
            await process.write(left + " " * max(wide - len(left) - len(right), 1) + right + "\n\n")
        await run(process, ["sh", "-c", command])
        await process.sleep(every)


async def man(process: Process) -> int:
    """There are no manuals."""
    if len(process.argv) < 2:
        await process.error("What manual page do you want?\nFor example, try 'man man'.\n")
        return 1
    await process.error(f"No manual entry for {process.argv[-1]}\n")
    return 16


async def clear(process: Process) -> int:
    """Clear the screen."""
    await process.write("\x1b[H\x1b[2J\x1b[3J")
    return 0


async def tty(process: Process) -> int:
    """Show which terminal this is."""
    await process.write("/dev/pts/0\n" if process.tty(0) else "not a tty\n")
    return int(not process.tty(0))


async def tput(process: Process) -> int:
    """Show what the terminal can do."""
    rows, columns = process.terminal.size if process.terminal else (24, 80)
    word = " ".join(process.argv[1:])
    known = {
        "cols": f"{columns}\n",
        "lines": f"{rows}\n",
        "colors": "256\n",
        "sgr0": "\x1b(B\x1b[m",
        "bold": "\x1b[1m",
        "clear": "\x1b[H\x1b[2J",
        "smcup": "\x1b[?1049h",
        "rmcup": "\x1b[?1049l",
        "civis": "\x1b[?25l",
        "cnorm": "\x1b[?25h",
    }
    match = re.fullmatch(r"setaf (\d{1,3})", word)
    if not match and word not in known:
        bad = f"{process.name}: unknown terminfo capability '{word}'" if word else f"usage: {process.name} capname..."
        await process.error(f"{bad}\n")
        return 4 if word else 2
    await process.write(f"\x1b[3{match[1]}m" if match else known[word])
    return 0


async def stty(process: Process) -> int:
    """Show or change how the terminal behaves."""
    terminal = process.tty(0)
    if not terminal:
        return await process.fail("'standard input': Inappropriate ioctl for device")
    words = process.argv[1:]
    if words == ["size"]:
        await process.write(f"{terminal.size[0]} {terminal.size[1]}\n")
    for word in words:
        if word in ("echo", "-echo"):
            terminal.echo = word == "echo"
        elif word in ("raw", "-icanon", "cbreak"):
            terminal.mode(raw=True)
        elif word in ("sane", "cooked", "icanon", "-raw"):
            terminal.echo = True
            terminal.mode(raw=False)
    if not words:
        await process.write(f"speed 38400 baud; line = 0;\n{'' if terminal.echo else '-'}echo\n")
    return 0


TOOLS: dict[str, Tool] = {
    "watch": watch,
    "man": man,
    "clear": clear,
    "reset": clear,
    "tty": tty,
    "tput": tput,
    "stty": stty,
}
