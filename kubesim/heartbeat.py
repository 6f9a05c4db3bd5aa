"""The pulse of a cluster's process, in a page that it shares with the host's front: a counter, a number and a note.

The note is written on SIGUSR1, by a process that hangs: what it is working on.
"""

from __future__ import annotations

import asyncio
import mmap
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import orjson

from kubesim.current_unit import CURRENT, NOTHING

BEAT_S = 0.5
HEAD = struct.Struct("=QHI")
"""The counter, the length of the note that follows, and the number of sandboxed programs."""
PAGE_BYTES = 4096
ASK = signal.SIGUSR1


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
        return int(HEAD.unpack_from(self._memory)[0])

    @property
    def programs(self) -> int:
        """The number of sandboxed programs that the process runs, each of which needs memory."""
        return int(HEAD.unpack_from(self._memory)[2])

    def beat(self, programs: int = 0) -> None:
        """Count one more."""
        HEAD.pack_into(self._memory, 0, self.beats + 1, 0, programs)

    def note(self, unit: tuple[str, str]) -> None:
        """Write down what is being worked on."""
        text = orjson.dumps(unit)
        if len(text) <= PAGE_BYTES - HEAD.size:
            self._memory[HEAD.size : HEAD.size + len(text)] = text
            HEAD.pack_into(self._memory, 0, self.beats, len(text), self.programs)

    @property
    def noted(self) -> tuple[str, str]:
        """What the process has written down since its last beat."""
        size = HEAD.unpack_from(self._memory)[1]
        if not size:
            return NOTHING
        resource, key = orjson.loads(self._memory[HEAD.size : HEAD.size + size])
        return resource, key

    def close(self) -> None:
        """Let go of it."""
        self._memory.close()


class Heartbeat:
    """Beats while the event loop turns, and notes what it is at where it does not."""

    def __init__(self, path: Path, programs: Callable[[], int]) -> None:
        self._page = SharedPage(path)
        self._programs = programs
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> Callable[[], None]:
        """Beat from now on; returns what ends it."""
        signal.signal(ASK, lambda number, frame: self._page.note(CURRENT.get()))
        self._beat()
        return self._stop

    def _beat(self) -> None:
        self._page.beat(self._programs())
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _stop(self) -> None:
        signal.signal(ASK, signal.SIG_IGN)
        if self._timer is not None:
            self._timer.cancel()
        self._page.close()
