"""Xid events: what the driver logs and what becomes of the device and its processes (``native/xids.yaml``).

Formats: the open kernel modules of the driver (branch 580 and later name a process only where one is known).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from kubesim import data
from kubesim.gpu.devices import Device, Task

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
        """Positions up to which those have read who keep that in a file of the node."""

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


_table = data.beside(__file__, "xids.yaml")
ERROR_LEVEL = 3
ROW_MASK = 0x0FFFFFC0
RECOVERY: list[str] = _table()["recovery"]
CUDA_ERRORS: dict[int, str] = _table()["cuda"]
"""cudaGetErrorString of the codes that faults lead to."""
_TIMING = {name: timedelta(microseconds=us) for name, us in _table()["timing"].items()}
Lines = tuple[tuple[int, str], ...]
"""Microseconds after the first of them, and text."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of event; ``native/xids.yaml`` explains the fields."""

    lines: Lines
    message: str
    sentinel: str
    process: bool = False
    victims: str = "none"
    error: int = 0
    new: int = 0
    recovery: int = 0
    ecc: int = 0
    link: int | None = None
    remap: str = ""
    device: dict[str, Any] = field(default_factory=dict)
    follow: tuple[int, ...] = ()
    turing: Lines = ()


@cache
def xids() -> dict[int, Xid]:
    """Return every known event by its number."""
    return {code: Xid(**entry) for code, entry in _table()["xids"].items()}


LOG, CUDA, COMBINED, HANG = "log", "cuda", "combined", "hang"
LAYERS = {
    LOG: frozenset({"log"}), CUDA: frozenset({"cuda"}), COMBINED: frozenset({"log", "cuda", "device"}),
    HANG: frozenset({"log", "device"}),
}  # fmt: skip
"""Places of an event: in the kernel's log alone, to programs alone, wherever a failed device does, or everywhere
but to the programs on the device, whose calls do not return."""
Ending = Callable[[Task, int], None]
"""Called for each process that dies, with the CUDA error it gets."""


def strike(
    device: Device, log: KernelLog, code: int, at: datetime, end: Ending, *, layers: str = COMBINED, cause: int = 0
) -> set[int]:
    """Let ``code`` happen on ``device``: lines, damage, the ends of victims. Raises KeyError if unknown.

    Returns it with the codes that follow from it (``cause`` is theirs): DCGM goes on to tell of the first one.
    """
    event, shown = xids()[code], LAYERS[layers]
    victims = _victims(device, event)
    if "log" in shown:
        _tell(device, log, code, at, victims[0] if victims and event.process else None)
    if "device" in shown:
        _damage(device, event, at, cause or code)
    elif "cuda" in shown:
        device.suffer(at, refuses=event.new or event.error or event.device.get("refuses") or device.trouble.refuses)
    struck, moment = {code}, at + _TIMING["recovery"]
    for other in event.follow:
        struck |= strike(device, log, other, at, end, layers=layers, cause=code)
    if event.recovery and "log" in shown:
        new = f"0x{event.recovery:x} ({RECOVERY[event.recovery]})"
        write(device, log, moment, 154, f"GPU recovery action changed from 0x0 ({RECOVERY[0]}) to {new}", None)
    for task in victims if event.victims != "none" and "cuda" in shown else ():
        moment += _TIMING["preempt"]
        if event.victims == "all" and "log" in shown:
            write(device, log, moment, 45, f"Ch 00000010 caused by previous Xid {code}", task)
        device.end(task.pid, at)
        end(task, event.error)
    return struck


def _tell(device: Device, log: KernelLog, code: int, at: datetime, task: Task | None) -> None:
    """Write the lines of an event, each at its own time."""
    event, first = xids()[code], _announce(device, log, at)
    for after, line in event.turing if event.turing and device.product.family == "turing" else event.lines:
        write(device, log, first + timedelta(microseconds=after), code, line, task)


def _victims(device: Device, event: Xid) -> list[Task]:
    tasks = sorted(device.tasks.values(), key=lambda task: task.pid)
    return tasks if event.victims == "all" else tasks[:1]


def _announce(device: Device, log: KernelLog, at: datetime) -> datetime:
    """Name the device before its first event since the driver was loaded; return when the event is written."""
    if device.announced:
        return at
    log.write(at, f"NVRM: GPU at PCI:{device.bus}: {device.uuid}", ERROR_LEVEL)
    log.write(at + _TIMING["serial"], f"NVRM: GPU Board Serial Number: {device.serial}", ERROR_LEVEL)
    device.announced = True
    return at + _TIMING["announced"]


def write(device: Device, log: KernelLog, at: datetime, code: int, line: str, task: Task | None) -> None:
    """Write a line of an Xid as the driver does, with the process that has caused it if one is known."""
    row = f"0x{zlib.crc32(f'{device.seed}/{device.state.ecc.uncorrected}'.encode()) & ROW_MASK:016x}"
    text = line.format(function=f"{device.bus}.0", gpu=device.index, serial=device.serial, row=row)
    if not text.startswith("NVRM:"):
        process = f"pid={task.pid}, name={task.name}, " if task else ""
        text = f"NVRM: Xid (PCI:{device.bus}): {code}, {process}{text}"
    log.write(at, text, ERROR_LEVEL)


def _damage(device: Device, event: Xid, at: datetime, cause: int) -> None:
    trouble = replace(device.trouble, **event.device)
    if event.link is not None:
        trouble = replace(trouble, links_down=trouble.links_down | {event.link})
    remap = device.state.remap
    if event.remap == "uncorrected":
        remap = replace(remap, uncorrected=remap.uncorrected + 1, pending=True)
    if event.remap == "failed":
        remap = replace(remap, failed=True)
    device.change(at, xid=cause, trouble=trouble, ecc=device.state.ecc.more(event.ecc), remap=remap)
