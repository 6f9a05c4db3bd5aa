"""who and last: when the machine has booted; nobody logs in on it."""

from __future__ import annotations

from datetime import UTC, datetime

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit


def _booted(process: Process) -> datetime:
    return datetime.fromtimestamp(process.machine.now() - process.machine.vitals().up_s, UTC)


async def who(process: Process) -> int:
    """Show the last boot (``-b``) and the run level (``-r``)."""
    opts = await kit.options(process)
    await kit.no_operands(process, opts.args[2:])
    at = f"{_booted(process):%Y-%m-%d %H:%M}"
    if "H" in opts:
        await process.write("NAME     LINE         TIME             COMMENT\n")
    if opts.any("ab"):
        await process.write(f"         system boot  {at}\n")
    if opts.any("ar"):
        await process.write(f"         run-level 5  {at}\n")
    if "q" in opts:
        await process.write("# users=0\n")
    return 0


async def last(process: Process) -> int:
    """Show the boots that are on record: the one of now."""
    opts = await kit.options(process)
    booted = _booted(process)
    if not opts.args or "reboot" in opts.args:
        shown = f"{process.machine.kernel[:16]:<16} {booted:%a %b %e %H:%M}"
        await process.write(f"reboot   system boot  {shown}   still running\n")
    await process.write(f"\nwtmp begins {booted:%a %b %e %H:%M:%S %Y}\n")
    return 0


TOOLS: dict[str, Tool] = {"who": who, "last": last}
