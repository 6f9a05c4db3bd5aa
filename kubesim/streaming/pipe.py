"""A byte stream inside one process: one side feeds it as data arrives, the other reads at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FULL_BYTES = 256 * 1024


class Pipe:
    """Bytes that wait to be read. ``on_level`` is called whenever data came or went, to slow a sender down."""

    def __init__(self, on_level: Callable[[], object] = lambda: None) -> None:
        self._data = bytearray()
        self._ended = False
        self._wake = asyncio.Event()
        self._taken = asyncio.Event()
        self._on_level = on_level

    @property
    def waiting(self) -> int:
        """Return how many bytes nobody has read yet."""
        return len(self._data)

    @property
    def ended(self) -> bool:
        """Tell whether nothing more is taken."""
        return self._ended

    async def room(self, full: int = FULL_BYTES) -> None:
        """Wait until fewer bytes than ``full`` wait to be read, or nothing more is taken."""
        while len(self._data) >= full and not self._ended:
            self._taken.clear()
            await self._taken.wait()

    async def over(self) -> None:
        """Wait until nothing more is taken."""
        while not self._ended:
            self._taken.clear()
            await self._taken.wait()

    def feed(self, data: bytes) -> None:
        """Add data; what comes after the end is dropped."""
        if self._ended or not data:
            return
        self._data += data
        self._wake.set()
        self._on_level()

    def end(self) -> None:
        """Let readers see the end once they have read what is there."""
        self._ended = True
        self._wake.set()
        self._taken.set()

    async def read(self, size: int = -1) -> bytes:
        """Return at least one byte and at most ``size`` (negative: whatever is there); b"" at the end."""
        while not self._data:
            if self._ended:
                return b""
            self._wake.clear()
            await self._wake.wait()
        count = len(self._data) if size < 0 else size
        taken = bytes(self._data[:count])
        del self._data[:count]
        self._taken.set()
        self._on_level()
        return taken
