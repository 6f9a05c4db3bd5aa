"""How files grow: on a disk that fills, in memory that is somebody's, or only counted where they are too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubesim.shell.errors import FileError
from kubesim.shell.sparse import Sparse, kept, space

if TYPE_CHECKING:
    from kubesim.shell.files import File, Files

MOST_SIZE = 16 << 40  # bytes: the largest file of ext4
MOST_ZEROS = 1 << 20
"""Zeros that somebody writes this far into a file are counted, not kept."""


class Writer:
    """Changes files of a tree."""

    __slots__ = ()
    files: Files
    now: Callable[[], float]

    def store(self, node: File, data: bytes | bytearray) -> None:
        """Replace a file's bytes."""
        self.files.charge(kept(data) - kept(node.data), on_disk=space(data) - space(node.data), memory=node.memory)
        node.data, node.mtime = data, self.now()

    def overwrite(self, node: File, at: int, data: bytes) -> None:
        """Put bytes into a file at a position; raises FileError where the disk is full.

        Of a large file whose bytes are zeros, or too many to be kept, only the size is remembered.
        """
        old, end = node.data, at + len(data)
        grown = max(end - len(old), 0)
        zeros = (
            (self.files.disk is not None or node.memory is not None)
            and at >= MOST_ZEROS
            and data.count(0) == len(data)
        )
        if isinstance(old, Sparse) or zeros or not self.files.keeps(grown):
            self.lengthen(node, end)
            if isinstance(node.data, Sparse) and at < node.data.head:
                head = bytearray(node.data[: node.data.head])
                head[at:end] = data[: len(head) - at]
                node.data = Sparse(head, node.data.size, node.data.space)
            return
        self.files.charge(grown, memory=node.memory)
        if not isinstance(old, bytearray):
            node.data = old = bytearray(old)
        if at > len(old):
            old += bytes(at - len(old))
        old[at:end] = data
        node.mtime = self.now()

    def lengthen(self, node: File, size: int, *, hole: bool = False) -> None:
        """Let a file be ``size`` bytes long at least, with zeros that nobody keeps.

        They take space on the disk unless they are a ``hole``; raises FileError where it is full.
        """
        if size > MOST_SIZE:
            raise FileError("EFBIG")
        more = max(size - len(node.data), 0)
        taken = 0 if hole else more
        self.files.charge(0, on_disk=taken, memory=node.memory)
        if not isinstance(node.data, Sparse):
            node.data = Sparse(node.data, len(node.data), len(node.data))
        node.data.size += more
        node.data.space += taken
        node.mtime = self.now()
