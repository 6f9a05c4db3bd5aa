"""top: the processes again and again, in batches or on the screen."""

from __future__ import annotations

from kubesim.clock import first
from kubesim.shell.lineedit import Keyboard
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.hosts import seen
from kubesim.shell.tools.processes import BUSY
from kubesim.shell.tools.runners import seconds
from kubesim.shell.tools.system import up_for
from kubesim.shell.tools.users import name_of
from kubesim.shell.vitals import BUFFERS


async def top(process: Process) -> int:
    """Show the processes until ``q``, Ctrl-C or the number of rounds that was asked for."""
    opts = await kit.options(process)
    terminal = None if "b" in opts else process.tty(1)
    if "b" not in opts and terminal is None:
        return await process.fail("failed tty get")
    every = max(seconds(opts.get("d", "3")) or 3.0, 0.1)
    left = int(opts.get("n")) if opts.get("n").isdecimal() else 1 << 30
    keyboard = Keyboard(process, terminal) if terminal else None
    if terminal:
        terminal.mode(raw=True)
    try:
        while left > 0:
            rows = terminal.size[0] - 1 if terminal else 1000
            await process.write(("\x1b[H\x1b[2J" if terminal else "") + "".join(_lines(process)[:rows]))
            left -= 1
            if left and await _pause(process, keyboard, every):
                break
    finally:
        if terminal:
            terminal.mode(raw=False)
    return 0


async def _pause(process: Process, keyboard: Keyboard | None, every: float) -> bool:
    """Wait for the next round; True where somebody wants to leave."""
    if keyboard is None:
        await process.sleep(every)
        return False
    key, _ = await first(keyboard.key(), process.machine.clock.sleep(every))
    return key.done() and key.result() in (b"q", b"\x03", b"")


def _lines(process: Process) -> list[str]:
    machine = process.machine
    every = sorted(seen(process).values(), key=lambda each: each.pid)
    now, vitals = machine.clock.now(), machine.vitals()
    total, loads = vitals.memory / 1048576, [f"{load:.2f}" for load in vitals.loads]
    used, cached, idle = (value / 1048576 for value in (vitals.used, vitals.cached + BUFFERS, vitals.free))
    busy = min(sum(each.use().cores for each in every) / machine.cpus * 100, 98.0)
    running = sum(_state(process, each) == "R" for each in every)
    shares = {"us": 1.2 + busy, "id": 98.1 - busy, "total": total, "idle": idle, "used": used, "cached": cached}
    counts = {"all": len(every), "running": running, "sleeping": len(every) - running, "available": total - used}
    head = kit.told("top", now=now, up=up_for(vitals.up_s), loads=", ".join(loads), **shares, **counts)
    every.sort(key=lambda each: (-each.use().cores, each.pid))
    return [*head.splitlines(keepends=True), *(_row(process, each) for each in every)]


def _row(process: Process, each: Process) -> str:
    use = each.use().of(each.name)
    share, minutes = use.memory / process.machine.memory * 100, int(use.seconds) // 60
    return (
        f"{each.pid:7d} {name_of(process.view, each.view.uid):<9} 20   0 {_size(use.reserved):>7} "
        f"{_size(use.memory):>6} {use.memory * 6 // 7168:>6} {_state(process, each)} {use.cores * 100:5.1f} "
        f"{share:5.1f} {minutes:3d}:{use.seconds % 60:05.2f} {each.name[:60]}\n"
    )


def _size(count: int) -> str:
    """Return bytes in KiB, or with a letter where those would not fit."""
    kib = count >> 10
    return str(kib) if kib < 1_000_000 else f"{kib / 1048576:.1f}g"


def _state(process: Process, each: Process) -> str:
    return "T" if each.stopped else "R" if getattr(each, "inner", each) is process or each.use().cores > BUSY else "S"


TOOLS: dict[str, Tool] = {"top": top}
