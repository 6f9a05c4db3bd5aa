"""Programs for the terminal one types at: watch, clear, tty, stty."""

from __future__ import annotations

from kubesim.shell.machine import Process
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


async def clear(process: Process) -> int:
    """Clear the screen."""
    await process.write("\x1b[H\x1b[2J\x1b[3J")
    return 0


async def tty(process: Process) -> int:
    """Show which terminal this is."""
    await process.write("/dev/pts/0\n" if process.tty(0) else "not a tty\n")
    return int(not process.tty(0))


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


TOOLS = kit.named(watch, clear, tty, stty) | {"reset": clear}
