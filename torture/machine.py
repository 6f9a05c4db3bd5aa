"""Failures of the machine under an installation: a full disk, a wall clock that is set. Each where it can be done."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("stepped_clock.c")
DISK_BYTES = 192 * 2**20  # three times what an installation needs to start
MAX_STEP_S = 3600


class SmallDisk:
    """A file system of its own for a data folder, which can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Take all the room that is left, to the last block."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (2**20, 4096):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


class SteppedClock:
    """The wall clock of the processes that ``variables`` are given to; nobody else's is touched."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock-offset"
        self._file.write_bytes(struct.pack("=q", 0))
        self._library = folder / "stepped_clock.so"

    def build(self) -> str:
        """Compile the library; return why it cannot be, or nothing."""
        compiler = shutil.which("cc")
        if compiler is None or not sys.platform.startswith("linux"):
            return "no C compiler, or not Linux"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl"]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            return made.stderr.strip()[:200]
        self.set(MAX_STEP_S)
        seen = subprocess.run(
            [sys.executable, "-c", "import time; print(time.time())"],
            capture_output=True,
            text=True,
            env={**os.environ, **self.variables},
        )
        self.set(0)
        stepped = float(seen.stdout or 0) - time.time()
        return "" if stepped > MAX_STEP_S / 2 else "the preloaded clock is not used"

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that give a process this clock."""
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Put the clock so far ahead of the machine's (negative: behind)."""
        with self._file.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("=q", seconds), 0)


@contextmanager
def small_disk(folder: Path, size: int = DISK_BYTES) -> Iterator[SmallDisk | None]:
    """Mount a small file system in memory at a folder; None, and a line that says so, where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        print("skipped: a full disk (needs root on Linux, to mount a small one)", flush=True)
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def stepped_clock(folder: Path) -> SteppedClock | None:
    """Return a clock that can be set for an installation; None, and a line that says so, where there is none."""
    clock = SteppedClock(folder)
    if why := clock.build():
        print(f"skipped: clock steps ({why})", flush=True)
        return None
    return clock
