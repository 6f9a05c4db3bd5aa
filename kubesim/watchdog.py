"""Ends a cluster's process that hangs or takes too much memory, and says how soon it may be started again.

A hung process is asked first what it is at: see ``heartbeat.py``. One that computes all the time but answers only
gets a lower priority.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubesim.current_unit import NOTHING
from kubesim.heartbeat import ASK
from kubesim.processes import Process

TICK_S = 1.0
MAX_SILENT_TICKS, MAX_STARVED_TICKS = 5, 30
"""Looks at a heartbeat that has not moved, a second each; longer where the machine gives the process no time. Looks
are counted, not seconds: where the machine has slept, or somebody has stopped all of us, nobody looked."""
MIN_CPU_S = 1.0
"""Who wants to compute and was given less than this in the silent time is starved, and does not hang."""
MAX_RESIDENT_BYTES = 512 << 20
PROGRAM_BYTES, MAX_PROGRAMS_BYTES = 8 << 20, 512 << 20
"""The memory that each sandboxed program may add to that, and all together: one that waits takes 5.6 MB."""
USAGE_TICKS = 5
BUSY_S, BUSY_SHARE, BUSY_NICENESS = 60.0, 0.8, 15
ANSWER_S = 0.5
PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
STAYED_UP_S = 60.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
log = logging.getLogger("kubesim.watchdog")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """A process at a moment."""

    resident_bytes: int
    """On Linux without the files that it maps: every Python program of a cluster maps the same 50 MB."""
    cpu_s: float
    state: str
    """Its first letter as ps has it: R runs or could, S sleeps, T is stopped."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a process was ended."""

    reason: str
    unit: tuple[str, str]
    """What it was at; NOTHING where it could not tell."""
    to_blame: bool
    """Whether an object can be the cause: nobody had stopped the process."""


class RestartPauses:
    """Seconds before each new start: longer each time, and short again after a process that stayed up."""

    def __init__(self) -> None:
        self._pauses = self._fresh()
        self._last: float | None = None

    def next(self, now: float) -> tuple[float, bool]:
        """Return the pause before the start of what has ended now, and whether it is not the first of late."""
        again = self._last is not None and now - self._last <= STAYED_UP_S
        if not again:
            self._pauses = self._fresh()
        pause = next(self._pauses)
        self._last = now + pause
        return pause, again

    @staticmethod
    def _fresh() -> Iterator[float]:
        return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))


class Watchdog:
    """Watches one process."""

    def __init__(self, name: str, process: Process) -> None:
        self.verdict: Verdict | None = None
        self._name = name
        self._process = process
        self._busy_since = 0.0
        self._lowered = False

    async def watch(self) -> None:
        """Look at the process every second until it has ended, and end it where it has to."""
        await self._process.forked.wait()
        silent, beats, before = 0, 0, await usage_of(self._process.pid)
        for tick in itertools.count(1):
            await asyncio.sleep(TICK_S)
            if self._process.ended.done():
                return
            found = self._process.page.beats
            silent, beats = (silent + 1 if found == beats else 0), found
            if silent == 0 and tick % USAGE_TICKS == 0:
                now = await usage_of(self._process.pid)
                if now is not None and now.resident_bytes > self.most_bytes():
                    return await self._end(f"has {now.resident_bytes >> 20} MB in memory")
                self._lower_if_busy(before, now)
                before = now
            elif silent >= MAX_SILENT_TICKS:
                now = await usage_of(self._process.pid)
                if silent >= MAX_STARVED_TICKS or not _starved(before, now):
                    await self._end(f"has not answered for {silent} s", stopped=now is not None and now.state == "T")
                    return

    def most_bytes(self) -> int:
        """Return the memory that the process may hold."""
        return MAX_RESIDENT_BYTES + min(self._process.page.programs * PROGRAM_BYTES, MAX_PROGRAMS_BYTES)

    async def _end(self, reason: str, *, stopped: bool = False) -> None:
        """Ask the process what it is at, and kill it."""
        self._process.signal(ASK)
        await asyncio.sleep(0 if stopped else ANSWER_S)
        if self._process.ended.done():
            return
        self.verdict = Verdict(reason, self._process.page.noted, not stopped)
        at = " at ".join(filter(None, self.verdict.unit)) if self.verdict.unit != NOTHING else "something unknown"
        log.error("%s %s, working on %s: killing its process", self._name, reason, at)
        self._process.signal(signal.SIGKILL)

    def _lower_if_busy(self, before: ProcessUsage | None, now: ProcessUsage | None) -> None:
        """Lower the priority of who computes all the time."""
        if before is None or now is None or self._lowered:
            return
        seconds = USAGE_TICKS * TICK_S
        busy = now.cpu_s - before.cpu_s > BUSY_SHARE * seconds
        self._busy_since = self._busy_since + seconds if busy else 0.0
        if self._busy_since >= BUSY_S:
            self._lowered = True
            log.warning("%s has computed for %d s: lowering its priority", self._name, self._busy_since)
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, BUSY_NICENESS)


def _starved(before: ProcessUsage | None, now: ProcessUsage | None) -> bool:
    """Tell whether a silent process would have gone on if the machine had let it."""
    if before is None or now is None or now.state != "R":
        return False
    return now.cpu_s - before.cpu_s < MIN_CPU_S


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
