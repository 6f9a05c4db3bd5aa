"""A node's kernel log: what ``dmesg`` and ``journalctl -k`` show, with the driver's own lines."""

from __future__ import annotations

import zlib
from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

CAPACITY = 4000
LONGEST = 976
"""Bytes of one record: the kernel's 1024 less what it adds itself."""
BURST_S, MIN_STEP_US, MAX_STEP_US = 0.5, 3, 41
"""Lines that come so close together were written one after the other; so far apart (microseconds)."""
KERNEL, USER = 0, 1
"""Facilities; the kernel gives ``USER`` to whatever a process writes to /dev/kmsg."""
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
FACILITIES = ("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news")


@dataclass(frozen=True, slots=True)
class Record:
    """One line: seconds since boot, level (0 to 7), facility, text."""

    sequence: int
    seconds: float
    level: int
    facility: int
    text: str


class KernelLog:
    """The ring of one node, since its last boot."""

    def __init__(self, booted: datetime) -> None:
        self.booted = booted
        self._records: deque[Record] = deque(maxlen=CAPACITY)
        self._next = 0
        self.positions: dict[str, int] = {}
        """How far those have read who keep that in a file of the node."""

    def write(self, at: datetime, text: str, level: int = 6, facility: int = KERNEL) -> None:
        """Add a record; ``text`` is cut at the kernel's longest, and one record is one line."""
        seconds = self._moment(max((at - self.booted).total_seconds(), 0.0), text)
        line = text.replace("\n", " ").encode()[:LONGEST].decode(errors="ignore")
        self._records.append(Record(self._next, seconds, level, facility, line))
        self._next += 1

    def _moment(self, seconds: float, text: str) -> float:
        """Return when a line is written: a little after the one before it, if both come at once."""
        before = self._records[-1].seconds if self._records else -BURST_S
        if not 0 <= before - seconds < BURST_S:
            return seconds
        step = MIN_STEP_US + zlib.crc32(f"{self._next}{text}".encode()) % (MAX_STEP_US - MIN_STEP_US)
        return before + step / 1e6

    def write_device(self, at: datetime, text: str) -> None:
        """Take what a process writes to /dev/kmsg: a record for each line, each with an optional ``<priority>``."""
        for line in text.splitlines():
            head, mark, rest = line.partition(">")
            known = mark and head.startswith("<") and head[1:].isdecimal()
            priority = int(head[1:]) if known and len(head) < 6 else 4
            # Facility 0 belongs to the kernel alone: a process that names it becomes a user.
            self.write(at, rest if known else line, priority & 7, priority >> 3 & 0x7F or USER)

    def records(self, since: float = -1.0) -> list[Record]:
        """Return what is in the ring, of later than ``since`` seconds after boot."""
        return [record for record in self._records if record.seconds > since]

    def after(self, sequence: int) -> list[Record]:
        """Return the records from number ``sequence`` on, for a reader that follows."""
        return [record for record in self._records if record.sequence >= sequence]

    @property
    def end(self) -> int:
        """The number that the next record will have."""
        return self._next

    def clear(self) -> None:
        """Forget what was logged (``dmesg -C``)."""
        self._records.clear()

    def at(self, record: Record) -> datetime:
        """Return the moment of a record."""
        return self.booted + timedelta(seconds=record.seconds)


def dmesg(log: KernelLog, record: Record, *, human: bool = False, decode: bool = False) -> str:
    """Return a record as ``dmesg`` prints it; ``human``: with -T, ``decode``: with -x."""
    stamp = log.at(record).strftime("%a %b %e %H:%M:%S %Y") if human else f"{record.seconds:12.6f}"
    prefix = f"{_facility(record):<6}:{LEVELS[record.level]:<6}: " if decode else ""
    return f"{prefix}[{stamp}] {record.text}"


def _facility(record: Record) -> str:
    return FACILITIES[record.facility] if record.facility < len(FACILITIES) else str(record.facility)
