"""Time as the machine's clock has it. What only reads it needs no call: the sandbox's own clock follows it."""

from __future__ import annotations

from kubesim.python.calls.registry import blocking
from kubesim.shell.machine import Process


@blocking
async def sleep(process: Process, until: float) -> None:
    """Sleep until a moment, in seconds since 1970: what is interrupted asks again."""
    await process.sleep(max(until - process.machine.now(), 0.0))
