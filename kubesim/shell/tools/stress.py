"""stress (polinux/stress): fills memory and keeps cores busy."""

from __future__ import annotations

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.runners import seconds

VM_BYTES = 256 << 20
"""What one worker fills unless it is told."""
HOGS = {"cpu": "c", "io": "i", "vm": "m", "hdd": "d"}
"""Kinds of workers, with the options that tell how many."""


async def stress(process: Process) -> int:
    """Run workers until the time is over or memory is full."""
    opts = await kit.options(process)
    await kit.no_operands(process, opts.args, f"FAIL: [{process.pid}] (244) unrecognized option: {{}}")
    counts = {name: kit.number(opts.get(flag) or "0") or 0 for name, flag in HOGS.items()}
    if not any(counts.values()):
        await process.write(kit.told("stress_usage"))
        return 0
    limit = seconds(opts.get("t") or "inf")
    if limit is None:
        return await process.fail(f"FAIL: [{process.pid}] (206) unrecognized argument to timeout: {opts.get('t')}")
    size = kit.number((opts.get("B") or str(VM_BYTES)).upper().replace("K", "k").removesuffix("B")) or VM_BYTES
    hogs = ", ".join(f"{count} {name}" for name, count in counts.items())
    await _tell(process, opts, f"dispatching hogs: {hogs}")
    await _work(process, counts["vm"] * size, _busy(counts, hanging="H" in opts), limit)
    await _tell(process, opts, f"successful run completed in {limit:.0f}s")
    return 0


def _busy(counts: dict[str, int], *, hanging: bool) -> float:
    """Return the cores that workers keep busy: one each, but for those that sleep with their memory or on a disk."""
    return counts["cpu"] + counts["vm"] * (0.05 if hanging else 1.0) + (counts["io"] + counts["hdd"]) * 0.3


async def _tell(process: Process, opts: kit.Options, text: str) -> None:
    if "q" not in opts:
        await process.write(f"stress: info: [{process.pid}] {text}\n")


async def _work(process: Process, size: int, cores: float, limit: float) -> None:
    """Hold memory and cores for a while."""
    await process.flush()
    meter, machine = process.machine.meter, process.machine
    meter.occupy(machine.now(), cores)
    try:
        await process.fill(size)
        await process.sleep(limit)
    finally:
        meter.occupy(machine.now(), -cores)


TOOLS: dict[str, Tool] = {"stress": stress}
