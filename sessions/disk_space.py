"""Room on the disk of the data folder: told before it is gone, and a reserve for the moment in which it is.

The reserve is a file of written blocks. Whoever finds the disk full removes it, so that an end, its events and the
bookkeeping of a cut-off can still be written; it is made again once there is plenty of room.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)
MIN_FREE_BYTES = 512 * 2**20  # below it people are warned
MIN_WORKING_BYTES = 64 * 2**20  # below it nothing should be started, and /readyz says so
RESERVE_BYTES = 16 * 2**20
FILE_NAME = "reserve"


def free_bytes() -> int:
    """Return how much room this installation has left."""
    return shutil.disk_usage(settings.DATA_DIR).free


def warning() -> str:
    """Return what to tell people about the room on the disk; empty while there is enough."""
    try:
        free = free_bytes()
    except OSError as exc:
        return f"The data folder cannot be looked at: {exc.strerror}."
    if free >= MIN_FREE_BYTES:
        return ""
    left = f"{free // 2**20} MiB are free on the disk of the data folder"
    if free < MIN_WORKING_BYTES:
        return f"Only {left}. Nothing more can be saved once it is full: free some space now."
    return f"{left}, less than {MIN_FREE_BYTES // 2**20}. Free some space before the next interview."


def is_short() -> bool:
    """Whether so little room is left that the next write may fail."""
    try:
        return free_bytes() < MIN_WORKING_BYTES
    except OSError:
        return True


def keep_reserve() -> None:
    """Make the reserve where it is missing and there is plenty of room."""
    path = _reserve()
    with contextlib.suppress(OSError):
        if not path.exists() and free_bytes() > MIN_FREE_BYTES + RESERVE_BYTES:
            with path.open("wb") as file:
                for _ in range(RESERVE_BYTES // 2**20):
                    file.write(os.urandom(2**20))  # file systems that compress would keep no room for zeros


def use_reserve() -> bool:
    """Give the reserve's room to whoever must write now; False where it was used before."""
    try:
        _reserve().unlink()
    except OSError:
        return False
    log.error("The disk of %s is full. Its reserve was freed: free some space", settings.DATA_DIR)
    return True


class DiskWatch:
    """Tells the log when room gets short and when it is back, and keeps the reserve."""

    def __init__(self) -> None:
        self._told = ""

    def look(self) -> None:
        """Compare with the last look."""
        keep_reserve()
        words = warning()
        if bool(words) != bool(self._told):
            log.warning("%s", words or "There is enough room on the disk of the data folder again.")
        self._told = words


def _reserve() -> Path:
    return Path(settings.DATA_DIR) / FILE_NAME
