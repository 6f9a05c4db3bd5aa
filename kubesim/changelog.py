"""Keeps one cluster in a file of changes: what has changed is added at its end, soon after it has happened.

A file is a row of batches. Each is a line of JSON (format, time, size and checksum) and that many bytes: lines of a
key, a tab and a value, both JSON; no value means that the thing is gone. A batch counts as a whole or not at all, so
whatever moment the machine stops, the state that is read back is one that the cluster has really had.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import orjson

from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.pki import write_private
from kubesim.times import micro

FORMAT = 2
DELAY_S = 0.25  # from a change to its writing; with the writing itself well under the one second that may be lost
RETRY_S = 1.0
LARGEST = 1 << 40
SLACK_BYTES = 4 * 1024 * 1024
"""A file is written anew once what it no longer needs is about as much as what it needs, and at least this."""
State = dict[bytes, bytes]
"""Values by key, both JSON; an empty value means that the thing is gone."""
log = logging.getLogger("kubesim.changelog")


class ChangeLogError(Exception):
    """No usable file; the message says which and what to do."""


class _DamageError(ChangeLogError):
    """What was read is not what was written."""


class ChangeLog:
    """``changes.log`` in a folder, and ``changes.previous.log``: the one that it was written anew from."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "changes.log"
        self.previous = folder / "changes.previous.log"
        self._size = 0
        self._needed = 0

    def load(self) -> State | None:
        """Return the newest whole state by key, or None where nothing was ever written.

        Damage is reported and what lies before it is taken. Raises ChangeLogError when there is nothing to take.
        """
        files = [path for path in (self.path, self.previous) if path.exists()]
        if not files:
            if (old := self.path.with_name("snapshot.json")).exists():
                raise ChangeLogError(f"{old} was written by an older kubesim; remove the folder to begin anew")
            return None
        problems = []
        for path in files:
            try:
                state, self._size = _read(path)
            except (OSError, _DamageError) as error:
                problems.append(f"{path}: {error}")
                continue
            self._take_up(path, problems, state)
            return state
        raise ChangeLogError("; ".join(problems) + "; remove the folder to begin with an empty cluster")

    def append(self, changes: State, at: datetime) -> None:
        """Add a batch; it is on the disk when this returns."""
        if self._size > 2 * self._needed + SLACK_BYTES:
            self._write_anew(at)
        batch = _batch(changes, at)
        if not self._size:
            self._replace(batch)
            return
        with self.path.open("r+b") as file:
            file.truncate(self._size)  # what a stop or a full disk cut off
            file.seek(self._size)
            file.write(batch)
            file.flush()
            os.fsync(file.fileno())
        self._size += len(batch)

    def _take_up(self, path: Path, problems: list[str], state: State) -> None:
        """Go on with the file that could be read; a damaged one is kept beside it."""
        self._needed = sum(map(len, state.values()))
        if problems:
            log.warning("%s; going back to %s", problems[0], path)
            if self.path.exists():
                self.path.replace(self.path.with_name("changes.damaged.log"))
            shutil.copy2(path, self.path)

    def _write_anew(self, at: datetime) -> None:
        """Write the newest state alone. It is read from the file: no memory is held for it, and nobody waits long."""
        state, _ = _read(self.path)
        self._replace(_batch(state, at))

    def _replace(self, batch: bytes) -> None:
        """Begin a new file; the one before it stays as ``changes.previous.log``."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            spare = self.previous.with_name(self.previous.name + ".new")
            spare.unlink(missing_ok=True)
            os.link(self.path, spare)
            spare.replace(self.previous)
        write_private(self.path, batch)
        _sync_folder(self.path.parent)
        self._size = self._needed = len(batch)


def _batch(changes: State, at: datetime) -> bytes:
    """Return a batch: its line, then one line for each key."""
    body = b"".join(chain.from_iterable((key, b"\t", value, b"\n") for key, value in changes.items()))
    head = {"format": FORMAT, "at": micro(at), "size": len(body), "crc32": zlib.crc32(body)}
    return orjson.dumps(head) + b"\n" + body


def _read(path: Path) -> tuple[State, int]:
    """Return the newest state that a file has whole, and where it ends; what follows damage is left out.

    Raises _DamageError where there is none.
    """
    state: State = {}
    end = 0
    with path.open("rb") as file:
        while head := file.readline():
            try:
                state.update(_changes(file, head))
            except _DamageError as error:
                if not end:
                    raise
                log.warning("%s: %s; what was changed after that is left out", path, error)
                break
            end = file.tell()
    kept = {key: value for key, value in state.items() if value}
    if not kept:
        raise _DamageError("it is empty")
    return kept, end


def _changes(file: BinaryIO, head: bytes) -> State:
    """Return the changes of the batch that begins with a line; raises _DamageError."""
    size, wanted = _header(head)
    changes: State = {}
    checksum = 0
    for line in _lines(file, size):
        checksum = zlib.crc32(line, checksum)
        key, _, value = line[:-1].partition(b"\t")
        changes[key] = value
    if checksum != wanted:
        raise _DamageError("a checksum differs")
    return changes


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next lines, ``size`` bytes in all."""
    while size > 0:
        line = file.readline(size)
        if not line.endswith(b"\n"):
            raise _DamageError("a line is cut off")
        size -= len(line)
        yield line


def _header(head: bytes) -> tuple[int, int]:
    """Return the size and the checksum that a batch's line names."""
    try:
        found: Obj = orjson.loads(head)
        if found["format"] != FORMAT:
            raise _DamageError(f"its format is {found['format']}, this program reads {FORMAT}")
        size = int(found["size"])
        if not 0 <= size <= LARGEST:
            raise _DamageError("a line is damaged")
        return size, int(found["crc32"])
    except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
        raise _DamageError("a line is damaged") from error


def _sync_folder(folder: Path) -> None:
    """Make the renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Changes:
    """What has changed in a cluster since it was last taken: the newest value by key, none for what is gone."""

    def __init__(self) -> None:
        self.on_first: Callable[[], object] = lambda: None
        """Called when there is something to take again."""
        self._noted: State = {}
        self._touched = False
        self._sources: list[Callable[[], State]] = []

    def note(self, key: bytes, value: bytes) -> None:
        """Remember a change."""
        self._noted[key] = value
        self.touch()

    def touch(self) -> None:
        """Have changes taken, if only from those who are followed."""
        if not self._touched:
            self._touched = True
            self.on_first()

    def follow(self, source: Callable[[], State]) -> None:
        """Ask ``source`` for what else has changed, whenever changes are taken."""
        self._sources.append(source)

    def take(self) -> State:
        """Return what has changed, and begin anew."""
        for source in self._sources:
            self._noted.update(source())
        taken, self._noted = self._noted, {}
        self._touched = False
        return taken

    def give_back(self, taken: State) -> None:
        """Remember what could not be written, but for what has changed again."""
        self._noted = taken | self._noted


class Saver:
    """Writes a cluster's changes soon after they were made, off the event loop."""

    def __init__(self, file: ChangeLog, changes: Changes, clock: Clock) -> None:
        self._file = file
        self._changes = changes
        self._clock = clock
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Write what there is, and from then on what changes."""
        self._changes.on_first = self._plan
        await self.save()

    async def stop(self) -> None:
        """Write what has changed, and stop."""
        self.leave()
        if self._task is not None:
            await asyncio.wait([self._task])
        await self.save()

    def leave(self) -> None:
        """Begin to write nothing more."""
        self._changes.on_first = lambda: None
        if self._timer is not None:
            self._timer.cancel()

    async def save(self) -> None:
        """Write what has changed; raises OSError."""
        async with self._lock:
            taken = self._changes.take()
            if not taken:
                return
            writing = asyncio.create_task(asyncio.to_thread(self._file.append, taken, self._clock.now()))
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                await asyncio.wait([writing])
                raise
            except OSError:
                self._changes.give_back(taken)
                raise

    def _plan(self, seconds: float = DELAY_S) -> None:
        """Write in a moment. The machine's time counts here: a stop of the machine knows no other."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.create_task(self._save(), name="save")

    async def _save(self) -> None:
        """Write; a full disk is reported, and tried again."""
        try:
            await self.save()
        except OSError as error:
            log.error("%s cannot be written: %s; free some space", self._file.path, error)
            self._plan(RETRY_S)
