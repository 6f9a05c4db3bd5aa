"""Time as the machine's clock has it. What only reads it needs no call: the sandbox's own clock follows it."""

from __future__ import annotations

import asyncio

from kubesim.python.calls.registry import blocking, call, state
from kubesim.shell.machine import Process


@blocking
async def sleep(process: Process, until: float) -> None:
    """Sleep until a moment, in seconds since 1970: what is interrupted asks again."""
    await process.sleep(max(until - process.machine.now(), 0.0))


@blocking
async def pause(process: Process) -> None:
    """Wait for a signal."""
    await process.flush()
    process.machine.rested = True
    await asyncio.get_running_loop().create_future()


@call
async def setitimer(process: Process, seconds: float, interval: float) -> list[float]:
    """Send SIGALRM after some seconds, and then at intervals; returns both as they were before."""
    own, now = state(process), process.machine.now()
    before = [max(own.alarm[0] - now, 0.0), own.alarm[1]] if own.timer is not None else [0.0, 0.0]
    own.stop_timer()
    if seconds > 0:
        own.alarm = now + seconds, interval
        own.timer = asyncio.ensure_future(_ring(process))
    return before


@call
async def getitimer(process: Process) -> list[float]:
    """Return the seconds to the next SIGALRM, and those from one to the next."""
    own = state(process)
    return [max(own.alarm[0] - process.machine.now(), 0.0), own.alarm[1]] if own.timer is not None else [0.0, 0.0]


async def _ring(process: Process) -> None:
    own = state(process)
    while True:
        moment, interval = own.alarm
        await process.machine.clock.sleep(max(moment - process.machine.now(), 0.0))
        own.alarm = moment + interval, interval
        if interval <= 0:
            own.timer = None
        process.signal("ALRM", inside=True)
        if interval <= 0:
            return
