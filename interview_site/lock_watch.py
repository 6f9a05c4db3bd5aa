"""Ends a process of ours that was frozen while it wrote to SQLite, because nobody else can write until it goes on.

A transaction lasts milliseconds and spans no request to a cluster. So a process that holds the write lock at every
one of many looks is stopped (SIGSTOP, a debugger, a failing disk), and SQLite frees the lock when it ends. The look
needs no SQLite: POSIX tells who holds a lock on a file. Only a process without connections of its own may do that,
since closing the file would drop that process' locks; the supervisor is one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path

LOOK_S = 0.25
LOOK_FREE_S = 1.0  # while nobody holds the lock
MAX_HELD_S = 10.0
_WAL_WRITE_LOCK = 120  # byte of the -shm file; https://www.sqlite.org/walformat.html#locking_matrix
_IS_LINUX = sys.platform.startswith("linux")
_FLOCK = "@hhqqi4x" if _IS_LINUX else "@qqihh"


def write_lock_holder(database: Path) -> int | None:
    """Return the process that holds SQLite's write lock; None where nobody does, or there is no database yet."""
    asked = (fcntl.F_WRLCK, os.SEEK_SET, _WAL_WRITE_LOCK, 1, 0)
    packed = struct.pack(_FLOCK, *(asked if _IS_LINUX else (asked[2], asked[3], asked[4], asked[0], asked[1])))
    try:
        with database.with_name(database.name + "-shm").open("rb+", buffering=0) as file:
            found = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, packed))
    except OSError:
        return None
    kind, pid = (found[0], found[4]) if _IS_LINUX else (found[3], found[2])
    return None if kind == fcntl.F_UNLCK else int(pid)


class LockWatch:
    """Looks again and again who holds the lock; ``groups`` names the process groups that may be ended."""

    def __init__(
        self,
        database: Path,
        groups: Callable[[], Collection[int]],
        say: Callable[[str], None],
        max_held_s: float = MAX_HELD_S,
    ) -> None:
        self._database = database
        self._groups = groups
        self._say = say
        self._max_looks = max(1, round(max_held_s / LOOK_S))
        self._holder: int | None = None
        self._looks = 0

    def start(self, stop: threading.Event) -> None:
        """Look in a thread until ``stop`` is set."""
        threading.Thread(target=self._run, args=(stop,), name="lock watch", daemon=True).start()

    def look(self) -> bool:
        """Look once; return whether a process was ended."""
        holder = write_lock_holder(self._database)
        self._looks = self._looks + 1 if holder is not None and holder == self._holder else 0
        self._holder = holder
        if holder is None or self._looks < self._max_looks:
            return False
        self._looks = 0
        return self._end(holder)

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_FREE_S if self._holder is None else LOOK_S):
            self.look()

    def _end(self, pid: int) -> bool:
        held = f"Process {pid} has kept the database locked for {self._max_looks * LOOK_S:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) in self._groups():
                self._say(f"{held}; it is ended and started again.")
                os.kill(pid, signal.SIGKILL)
                return True
            self._say(f"{held}, so nothing can be saved. It is not one of ours. Run: kill {pid}")
        return False
