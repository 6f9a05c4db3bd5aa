"""Requests to end an interview that the database has not taken yet.

An end must not wait for a disk with room or for a database that somebody has locked. So it is first kept in memory
and in a small file whose blocks were allocated in good time; the access enforcer cuts the candidate off at once and
records the end as soon as the database can write, with the moment at which it was pressed. The file serves the other
processes of this machine, and the next start.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)
FILE_NAME = "end-requests"
SLOT_BYTES = 256
MAX_REQUESTS = 64
decided = threading.Event()
"""Set when this process has changed what access a candidate should have."""

_lock = threading.Lock()
_held: set[EndRequest] = set()


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A request to end a session. ``after`` is its newest clock entry at that time; a newer one overrules it."""

    session_id: int
    actor_id: int | None
    at: datetime
    after: int

    def dump(self) -> bytes:
        """Return it as one slot of the file."""
        line = json.dumps([self.session_id, self.actor_id, self.at.isoformat(), self.after])
        return line.encode("ascii").ljust(SLOT_BYTES)

    @classmethod
    def load(cls, slot: bytes) -> EndRequest | None:
        """Read a slot; None where it is empty or half written."""
        try:
            session_id, actor_id, at, after = json.loads(slot.decode("ascii"))
            return cls(int(session_id), actor_id, datetime.fromisoformat(at), int(after))
        except (ValueError, TypeError):
            return None


def prepare() -> None:
    """Allocate the file while there is room. A file system without room leaves the memory of this process."""
    path = _path()
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
            missing = MAX_REQUESTS * SLOT_BYTES - os.fstat(file.fileno()).st_size
            if missing > 0:
                file.seek(0, os.SEEK_END)
                file.write(b" " * missing)  # written, not only reserved: every file system keeps what it has stored
                os.fsync(file.fileno())
    except OSError as exc:
        log.warning("%s cannot be prepared: %s", path, exc)


def keep(request: EndRequest) -> None:
    """Remember a request here and in the file, and wake this process' enforcer."""
    with _lock:
        _held.add(request)
        try:
            _write(request)
        except OSError as exc:
            log.warning("The request to end session %s is kept in memory only: %s", request.session_id, exc)
    decided.set()


def forget(request: EndRequest) -> None:
    """Drop a request that was carried out or overruled."""
    with _lock:
        _held.discard(request)
        try:
            _erase(request)
        except OSError as exc:
            log.warning("%s cannot be written: %s", _path(), exc)


def pending() -> list[EndRequest]:
    """Return every request of this machine that has not been recorded, the oldest first."""
    with _lock:
        found = _held | {request for request in map(EndRequest.load, _slots()) if request is not None}
    return sorted(found, key=lambda request: request.at)


def _path() -> Path:
    return Path(settings.DATA_DIR) / FILE_NAME


def _slots() -> list[bytes]:
    try:  # twice a second in each of two processes: pathlib would cost more than the file
        file = os.open(os.path.join(settings.DATA_DIR, FILE_NAME), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        data = os.read(file, MAX_REQUESTS * SLOT_BYTES)
    except OSError:
        return []
    finally:
        os.close(file)
    if data.isspace():  # as nearly always
        return []
    return [data[start : start + SLOT_BYTES] for start in range(0, len(data), SLOT_BYTES)]


def _write(request: EndRequest) -> None:
    """Write into a free slot. Another process may be at the same: a slot is locked while it is looked at."""
    slot = request.dump()
    if len(slot) > SLOT_BYTES:
        raise OSError("the request is too long for its slot")
    with _path().open("r+b", buffering=0) as file:
        for start in range(0, MAX_REQUESTS * SLOT_BYTES, SLOT_BYTES):
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, SLOT_BYTES, start)
            except BlockingIOError:  # perhaps by a process that is frozen: the next slot will do
                continue
            if EndRequest.load(os.pread(file.fileno(), SLOT_BYTES, start)) is None:
                os.pwrite(file.fileno(), slot, start)
                os.fsync(file.fileno())
                return
    raise OSError("every slot is taken")


def _erase(request: EndRequest) -> None:
    for number, slot in enumerate(_slots()):
        if EndRequest.load(slot) == request:
            with _path().open("r+b", buffering=0) as file:
                os.pwrite(file.fileno(), b" " * SLOT_BYTES, number * SLOT_BYTES)
                os.fsync(file.fileno())
