"""The pulse of a cluster's process: a counter in a page of memory that it shares with the host's front."""

from __future__ import annotations

import asyncio
import mmap
import struct
from collections.abc import Callable
from pathlib import Path

BEAT_S = 0.5
COUNTER = struct.Struct("=Q")
PAGE_BYTES = 4096


class SharedPage:
    """A small file that two processes have in their memory."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), PAGE_BYTES)

    @classmethod
    def create(cls, path: Path) -> SharedPage:
        """Make the file."""
        path.write_bytes(bytes(PAGE_BYTES))
        return cls(path)

    @property
    def beats(self) -> int:
        """How often the process has shown that its event loop turns."""
        return int(COUNTER.unpack_from(self._memory)[0])

    def beat(self) -> None:
        """Count one more."""
        COUNTER.pack_into(self._memory, 0, self.beats + 1)

    def close(self) -> None:
        """Let go of it."""
        self._memory.close()


class Heartbeat:
    """Beats while the event loop turns."""

    def __init__(self, path: Path) -> None:
        self._page = SharedPage(path)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> Callable[[], None]:
        """Beat from now on; returns what ends it."""
        self._beat()
        return self._stop

    def _beat(self) -> None:
        self._page.beat()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._page.close()
