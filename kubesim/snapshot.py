"""Keeps one cluster's state in a file: replaced as a whole, checked when read, with the one before it kept."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

import orjson

from kubesim.errors import Obj
from kubesim.pki import write_private

FORMAT = 1
INTERVAL = 0.5  # seconds between looks; with the writing itself well under the one second that may be lost
log = logging.getLogger("kubesim.snapshot")


class SnapshotError(Exception):
    """No usable snapshot; the message says which files and what to do."""


class SnapshotFile:
    """``snapshot.json`` and ``snapshot.previous.json`` in a folder; a header line holds format, size and SHA-256."""

    def __init__(self, folder: Path) -> None:
        self.current = folder / "snapshot.json"
        self.previous = folder / "snapshot.previous.json"

    def save(self, payload: bytes) -> None:
        """Replace the snapshot; whatever moment the machine stops, one whole snapshot is there."""
        self.current.parent.mkdir(parents=True, exist_ok=True)
        header = {"format": FORMAT, "size": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        if self.current.exists():
            spare = self.previous.with_name(self.previous.name + ".new")
            spare.unlink(missing_ok=True)
            os.link(self.current, spare)
            spare.replace(self.previous)
        write_private(self.current, orjson.dumps(header) + b"\n" + payload)
        _sync_folder(self.current.parent)

    def load(self) -> bytes | None:
        """Return the newest whole snapshot, or None where none was ever written.

        A damaged file is reported and the previous one taken; raises SnapshotError when there is none to take.
        """
        if not self.current.exists() and not self.previous.exists():
            return None
        problems = []
        for path in (self.current, self.previous):
            try:
                payload = _read(path)
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {error}")
                continue
            if problems:
                log.warning("%s; going back to %s", problems[0], path)
            return payload
        raise SnapshotError("; ".join(problems) + "; remove the folder to begin with an empty cluster")


def _read(path: Path) -> bytes:
    """Return a snapshot's payload; raises ValueError for one that is not whole."""
    head, _, payload = path.read_bytes().partition(b"\n")
    header: Obj = orjson.loads(head)
    if header.get("format") != FORMAT:
        raise ValueError(f"the format is {header.get('format')}, this program reads {FORMAT}")
    if header.get("size") != len(payload) or header.get("sha256") != hashlib.sha256(payload).hexdigest():
        raise ValueError("the snapshot is damaged (its checksum differs)")
    return payload


def _sync_folder(folder: Path) -> None:
    """Make the renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Snapshotter:
    """Writes a snapshot soon after every change, off the event loop."""

    def __init__(self, file: SnapshotFile, dump: Callable[[], bytes], revision: Callable[[], object]) -> None:
        """``revision`` is compared to see whether anything has changed since the last snapshot."""
        self._file = file
        self._dump = dump
        self._revision = revision
        self._saved: object = None
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for changes."""
        self._task = asyncio.create_task(self._run(), name="snapshot")

    async def stop(self) -> None:
        """Stop looking, and write what has changed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.save()

    async def save(self) -> None:
        """Write a snapshot if anything has changed."""
        async with self._lock:
            revision = self._revision()
            if revision != self._saved:
                payload = self._dump()
                await self._write(payload)
                self._saved = revision

    async def _write(self, payload: bytes) -> None:
        """Write in a thread. A cancelled task waits for its thread, or two would write the same file at once."""
        writing = asyncio.create_task(asyncio.to_thread(self._file.save, payload))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait([writing])
            raise

    async def _run(self) -> None:
        """Save again and again; a full disk is reported and tried again."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self.save()
            except OSError as error:
                log.error("the snapshot %s cannot be written: %s", self._file.current, error)
