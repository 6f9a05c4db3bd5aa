"""The kernel log as a program writes and reads it: ``/dev/kmsg``, or a regular file in its place.

It is opened once, before the agent gives up root, and never created. The kernel makes facility ``user`` of whatever a
program writes, so that a reader who looks for it can always tell; ``WRITERS`` has the forms for readers who do not.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from faults.agent.clocks import NodeClock
from faults.agent.driver_lines import Lines
from faults.agent.refusals import not_permitted, too_many

DEVICE = Path("/dev/kmsg")
MODULE = Path("/dev/driver-log")
"""The device of deploy/driver-log: the kernel itself writes what comes there, as it does for the driver."""
SWITCH = Path("/proc/sys/kernel/printk_devkmsg")
MAX_RECORD = 976
"""Bytes of one record: the kernel's 1024 less what it adds itself."""
MAX_KEPT = 4000
ERROR, INFO = 3, 6
BURST, PERIOD_S = 10, 5.1
"""Lines that the kernel takes from one opener in five seconds where kernel.printk_devkmsg is ``ratelimit``; it drops
the others without a word."""
BY_MODULE = "module"
WRITERS = {"driver": "", "doubled": "NVRM: ", "kernel": "kernel: ", BY_MODULE: ""}
"""Prefixes: none, as in dmesg of a real fault; what journald takes for the identifier and strips, so that readers of
journald's messages find ``NVRM: Xid`` there. The module's lines need none: they are the kernel's own."""
RECORD = re.compile(r"\d+,(\d+),\d+,[^;]*;([^\n]*)")


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the log."""

    sequence: int
    text: str


class KernelLog:
    """The log of a node. ``refusal`` says why it cannot be written to; empty where it can."""

    def __init__(self, clock: NodeClock, path: Path = DEVICE, switch: Path = SWITCH, module: Path = MODULE) -> None:
        self._clock, self._path = clock, path
        self._written: deque[float] = deque()
        self.records: deque[Record] = deque(maxlen=MAX_KEPT)
        self.end = -1
        self._mode, self.refusal, self._out = _text(switch), "", -1
        self._is_device = path.is_char_device()
        try:
            self._out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            self.refusal = _explain(error, path, self._mode)
        self._module, self.module_refusal = _open_module(module)
        self._in = self._open_reader()
        self.refresh()

    @property
    def is_readable(self) -> bool:
        """Return whether what was written can be seen in the log."""
        return self._in >= 0

    def _open_reader(self) -> int:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return -1

    def close(self) -> None:
        """Close both ends."""
        for number in {self._out, self._in, self._module} - {-1}:
            os.close(number)

    def require_room(self, count: int) -> None:
        """Refuse where the log cannot be written to, or the kernel would drop some of so many lines."""
        if self.refusal:
            raise not_permitted(self.refusal)
        now = self._clock.seconds()
        while self._written and self._written[0] <= now - PERIOD_S:
            self._written.popleft()
        if self._is_device and self._mode != "on" and len(self._written) + count > BURST:
            text = f"the kernel takes {BURST} lines of a program in 5 s (kernel.printk_devkmsg is {self._mode})"
            raise too_many(f"{text}; try again", retry_after=5)

    def require_module(self) -> None:
        """Refuse where the kernel has not the module that writes for us."""
        if self.module_refusal:
            raise not_permitted(self.module_refusal)

    def write(self, level: int, lines: Lines, *, by_module: bool = False) -> None:
        """Write lines, each at its time, and see that they are in the log. Raises Refusal."""
        self.require_room(0 if by_module else len(lines))
        self.refresh()
        before, start = self.end, 0
        for after, text in lines:
            self._clock.wait_until(start + after * 1000)
            if by_module:
                self._send(self._module, text)  # of the driver's own level
            else:
                self._written.append(self._clock.seconds())
                self._send(self._out, f"<{level}>{text}")
            start = start or time.monotonic_ns()
        self._check({text for _, text in lines}, before)

    def _send(self, number: int, record: str) -> None:
        try:
            # One write is one record; readers see it before the next one comes only if it ends its line.
            os.write(number, record.encode()[: MAX_RECORD - 1] + b"\n")
        except OSError as error:
            raise not_permitted(_explain(error, self._path, self._mode)) from error

    def _check(self, expected: Collection[str], before: int) -> None:
        self.refresh()
        missing = set(expected) - {record.text for record in self.records if record.sequence > before}
        if missing and self.is_readable:
            raise not_permitted(f"{self._path} took {len(missing)} lines that did not get into the kernel log")

    def refresh(self) -> None:
        """Read what is new in the log; ``records`` are the newest, ``end`` is the number of the last."""
        if self._in < 0:
            return
        for record in self._read_device() if self._is_device else self._read_file():
            self.records.append(record)
            self.end = record.sequence

    def _read_device(self) -> Iterator[Record]:
        while (data := _next_record(self._in)) is not None:
            if match := RECORD.match(data.decode(errors="replace")):
                yield Record(int(match[1]), match[2])

    def _read_file(self) -> Iterator[Record]:
        lines = b"".join(iter(lambda: os.read(self._in, 1 << 16), b"")).decode(errors="replace").splitlines()
        yield from (Record(self.end + 1, re.sub(r"^<\d+>", "", line)) for line in lines)


def _next_record(number: int) -> bytes | None:
    """Return one record of the device; None at its end. The oldest may be overwritten while they are read."""
    while True:
        try:
            return os.read(number, 8192)
        except BlockingIOError:
            return None
        except BrokenPipeError:
            continue


def _open_module(path: Path) -> tuple[int, str]:
    """Open the module's device; return what is in the way, and what to do, where it cannot be."""
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), ""
    except OSError as error:
        reasons = {
            errno.ENOENT: "the module is not loaded on this node; build and load it there (deploy/driver-log, which "
            "needs the kernel's headers) and start the agent again, or take another writer",
            errno.EACCES: f"user id {os.geteuid()} may not write to it; start the agent as root, which it gives up",
            errno.EPERM: "the container has no right to the device; it needs securityContext.privileged",
        }
        return -1, f"writer: {BY_MODULE}: {path}: {reasons.get(error.errno or 0, error.strerror)}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _explain(error: OSError, path: Path, mode: str) -> str:
    """Return what is in the way, and what to do."""
    switched_off = "kernel.printk_devkmsg is off, and stays so until a boot without printk.devkmsg=off"
    no_right = "the container has no right to the device; it needs securityContext.privileged"
    reasons = {
        errno.ENOENT: "it is missing in the container; mount the node's /dev/kmsg",
        errno.EACCES: f"user id {os.geteuid()} may not write to it; start the agent as root, which it gives up",
        errno.EPERM: switched_off if mode == "off" else no_right,
    }
    return f"{path} cannot be written to: {reasons.get(error.errno or 0, error.strerror)}"
