"""The installation's time, which nobody can set while anything is open; an argument wherever it can be.

A machine's wall clock may be set by an hour in either direction, by a person or by NTP, and deadlines, leases and
session time must not follow. So the time is read from the boot clock, which nobody can set, goes on while the machine
sleeps, and is the same for all processes. An anchor ties it to the wall clock once for each boot; it lies in a small
file of the data folder, where every process finds it, also while the database is locked and nothing else runs.

After a reboot the anchor is made anew from the wall clock, but never before the newest time that was written down.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import fcntl
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_ERROR = timedelta(seconds=2)  # of the wall clock, before a fresh anchor is worth a log line
MAX_BYTES = 4096
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """The clock that jobs need."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``."""


class RealClock:
    """The installation's clock."""

    def now(self) -> datetime:
        """Return the installation's time."""
        return now()

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        threading.Event().wait(seconds)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The wall clock's reading at the start of a boot, in microseconds since 1970; ``last_us`` was seen since."""

    boot_id: str
    offset_us: int
    last_us: int = 0

    def dump(self) -> bytes:
        """Return it as the file's whole content, padded: rewriting it needs no room on the disk."""
        return json.dumps([self.boot_id, self.offset_us, self.last_us]).encode("ascii").ljust(MAX_BYTES)

    @classmethod
    def load(cls, data: bytes) -> Anchor | None:
        """Read what ``dump`` wrote; None where it is something else."""
        try:
            boot_id, offset_us, last_us = json.loads(data)
            return cls(str(boot_id), int(offset_us), int(last_us))
        except (ValueError, TypeError):
            return None


def boot_s() -> float:
    """Return the seconds since the boot, those included in which the machine slept."""
    return boot_us() / 1_000_000


def boot_us() -> int:
    """Return the microseconds since the boot; on macOS the monotonic clock of POSIX counts sleep as well."""
    clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock_id) // 1000


def boot_id() -> str:
    """Return what names this boot of this machine."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return _sysctl("kern.bootsessionuuid") if sys.platform == "darwin" else "unknown"


def _sysctl(name: str) -> str:
    value, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    failed = ctypes.CDLL(ctypes.util.find_library("c")).sysctlbyname(
        name.encode(), value, ctypes.byref(size), None, 0
    )
    return "unknown" if failed else value.value.decode("ascii", "replace")


def _wall_us() -> int:
    return time.time_ns() // 1000


def time_of(anchor: Anchor) -> datetime | None:
    """Return the time by an anchor; None where it was made in another boot or on another machine."""
    return EPOCH + timedelta(microseconds=anchor.offset_us + boot_us()) if anchor.boot_id == boot_id() else None


class InstallationClock:
    """Time since 1970 as one installation on one machine counts it. Every method may be called from any thread."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        wall_us: Callable[[], int] = _wall_us,
        boot_us: Callable[[], int] = boot_us,
        boot_id: Callable[[], str] = boot_id,
    ) -> None:
        self._path = path
        self._wall_us = wall_us
        self._boot_us = boot_us
        self._boot_id = boot_id()
        self._lock = threading.Lock()
        self._read = b""
        self._anchor = self._load() or self._make()

    def now(self) -> datetime:
        """Return the installation's time.

        The anchor is read every time, in 8 microseconds: another process may have moved it at rest, and what is
        stamped by the old one lies an hour in the future for all the others.
        """
        with self._lock:
            self._keep_up()
            return EPOCH + timedelta(microseconds=self._anchor.offset_us + self._boot_us())

    @property
    def anchor(self) -> Anchor:
        """The tie between this clock and the wall clock in this boot."""
        return self._anchor

    def error(self) -> timedelta:
        """Return how far the wall clock is ahead of the installation's."""
        return EPOCH + timedelta(microseconds=self._wall_us()) - self.now()

    def note(self) -> None:
        """Write down how late it is, so that time goes on from here should the machine be booted anew."""
        at = (self.now() - EPOCH) // timedelta(microseconds=1)
        with self._lock:
            self._anchor = Anchor(self._boot_id, self._anchor.offset_us, at)
            self._rewrite(self._anchor)

    def settle(self) -> timedelta:
        """Follow the wall clock again; for moments in which nothing is open. Return how far time was moved."""
        error = self.error()
        if abs(error) > MAX_ERROR:
            log.warning("The machine's clock was set by %.0f s; nothing is open, so we follow", error.total_seconds())
            with self._lock:
                self._anchor = Anchor(self._boot_id, self._wall_us() - self._boot_us())
                self._rewrite(self._anchor)
        return error

    def _keep_up(self) -> None:
        """Take over the anchor of the file, where it is another one."""
        content = self._content()
        if content != self._read:
            self._read = content
            self._anchor = self._load() or self._anchor

    def _content(self) -> bytes:
        """Return the file as it is; nothing where it cannot be read."""
        if self._path is None:
            return b""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(file, MAX_BYTES)
        finally:
            os.close(file)

    def _load(self) -> Anchor | None:
        """Return this boot's anchor from the file."""
        found = self._stored()
        return found if found is not None and found.boot_id == self._boot_id else None

    def _stored(self) -> Anchor | None:
        return Anchor.load(self._content())

    def _make(self) -> Anchor:
        """Anchor to the wall clock; the first process of a boot decides for all."""
        if self._path is None:
            return self._fresh(None)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                anchor = self._load() or self._fresh(self._stored())
                os.pwrite(file.fileno(), anchor.dump(), 0)
                return anchor
        except OSError as exc:
            log.warning("%s cannot be written, so a restart may follow a clock that was set: %s", self._path, exc)
            return self._load() or self._fresh(self._stored())

    def _fresh(self, before: Anchor | None) -> Anchor:
        at = self._wall_us() if before is None else max(self._wall_us(), before.last_us)
        return Anchor(self._boot_id, at - self._boot_us(), at)

    def _rewrite(self, anchor: Anchor) -> None:
        """Replace the content where it lies: one write of one block, which needs no room."""
        if self._path is None:
            return
        try:
            with self._path.open("r+b", buffering=0) as file:
                os.pwrite(file.fileno(), anchor.dump(), 0)
        except OSError as exc:
            log.warning("%s cannot be written: %s", self._path, exc)


_shared: dict[str, InstallationClock] = {}
_paths: list[Path] = []


def use_file(path: Path) -> None:
    """Take the anchor from ``path``, which all processes of an installation share. It is read when it is needed."""
    _paths[:] = [path]
    _shared.clear()


def installation() -> InstallationClock:
    """Return the clock of this process' installation; without a file, one of this process alone."""
    if "clock" not in _shared:
        _shared.setdefault("clock", InstallationClock(_paths[0] if _paths else None))
    return _shared["clock"]


def now() -> datetime:
    """Return the installation's time, aware, in UTC."""
    return installation().now()
