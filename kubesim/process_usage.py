"""The memory and the computing time of another process, from /proc or from ps."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """A process at a moment."""

    resident_bytes: int
    """On Linux without the files that it maps: every Python program of a cluster maps the same 50 MB."""
    cpu_s: float
    state: str
    """Its first letter as ps has it: R runs or could, S sleeps, T is stopped."""


async def usage_of(pid: int) -> ProcessUsage | None:
    """Return what a process uses; None where it is gone."""
    try:
        return _in_proc(pid) if sys.platform.startswith("linux") else await _from_ps(pid)
    except (OSError, ValueError, IndexError):
        return None


def _in_proc(pid: int) -> ProcessUsage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    _, resident, files = Path(f"/proc/{pid}/statm").read_text().split()[:3]
    cpu_s = (int(fields[11]) + int(fields[12])) / TICKS
    return ProcessUsage((int(resident) - int(files)) * PAGE_BYTES, cpu_s, fields[0])


async def _from_ps(pid: int) -> ProcessUsage:
    command = ("ps", "-o", "rss=,time=,state=", "-p", str(pid))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    resident, time, state = told.decode().split()[:3]
    return ProcessUsage(int(resident) * 1024, _seconds(time), state[0])


def _seconds(text: str) -> float:
    """Return the seconds in ps's days-hours:minutes:seconds, of which the first parts may be missing."""
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86400 * int(days or 0)
