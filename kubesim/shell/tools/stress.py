"""stress, stress-ng and the stress of Kubernetes' own examples: they fill memory and keep cores busy."""

from __future__ import annotations

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.runners import seconds

FOREVER_S = 1e9
VM_BYTES = 256 << 20
"""What one worker fills unless it is told."""
NG_DEFAULT_S = 86_400.0
HOGS = {"cpu": "c", "io": "i", "vm": "m", "hdd": "d"}
"""Kinds of workers, with the options that tell how many."""
SUFFIXES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 1000, "M": 1000**2, "G": 1000**3}


async def stress(process: Process) -> int:
    """Run workers until the time is over or memory is full."""
    if any(word == "-cpus" or word.startswith("-mem-") for word in process.argv):
        return await _example(process)
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
    if "q" not in opts:
        await _announce(process, counts, limit)
    await _work(process, counts["vm"] * size, _busy(counts, hanging="H" in opts), limit)
    if "q" not in opts:
        await process.write(f"{_prefix(process)} successful run completed in {limit:.0f}s\n")
    return 0


def _busy(counts: dict[str, int], *, hanging: bool) -> float:
    """Return the cores that workers keep busy: one each, but for those that sleep with their memory or on a disk."""
    return counts["cpu"] + counts["vm"] * (0.05 if hanging else 1.0) + (counts["io"] + counts["hdd"]) * 0.3


def _prefix(process: Process) -> str:
    return f"stress: info: [{process.pid}]" if process.name == "stress" else f"stress-ng: info:  [{process.pid}]"


async def _announce(process: Process, counts: dict[str, int], limit: float) -> None:
    if process.name == "stress":
        hogs = ", ".join(f"{count} {name}" for name, count in counts.items())
    else:
        whole = min(limit, NG_DEFAULT_S)
        await process.write(f"{_prefix(process)} setting to a {whole:.2f} secs run per stressor\n")
        hogs = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    await process.write(f"{_prefix(process)} dispatching hogs: {hogs}\n")


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


async def _example(process: Process) -> int:
    """Run the program of the image vish/stress, which logs as Kubernetes does."""
    given = dict(zip(process.argv[1::2], process.argv[2::2], strict=False))
    total, step = given.get("-mem-total", "0"), given.get("-mem-alloc-size", "4Ki")
    rest = given.get("-mem-alloc-sleep", "1ms")
    cores, size = int(given.get("-cpus", "0") if given.get("-cpus", "0").isdecimal() else 0), _bytes(total)
    await _log(
        process, 26, f'Allocating "{total}" memory, in "{step}" chunks, with a {rest} sleep between allocations'
    )
    for _ in range(min(cores, 64)):
        await _log(process, 39, "Spawning a thread to consume CPU")
    if not size:
        await _log(process, 29, 'Allocated "0" memory')
    await _work(process, size, cores, FOREVER_S)
    return 0


async def _log(process: Process, line: int, text: str) -> None:
    stamp = process.machine.clock.now().strftime("%m%d %H:%M:%S.%f")
    await process.error(f"I{stamp} {process.pid:7d} main.go:{line}] {text}\n")


def _bytes(word: str) -> int:
    for suffix, factor in SUFFIXES.items():
        if word.endswith(suffix) and word.removesuffix(suffix).isdecimal():
            return int(word.removesuffix(suffix)) * factor
    return int(word) if word.isdecimal() else 0


TOOLS: dict[str, Tool] = {"stress": stress, "stress-ng": stress}
