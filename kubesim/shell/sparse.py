"""Files that grow: on a disk that fills, in memory that is somebody's, or larger than what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubesim.shell.errors import FileError

if TYPE_CHECKING:
    from kubesim.shell.files import File, Files

MOST_MADE = 64 << 20
"""How many bytes of a file that is not kept are made at once."""

MOST_SIZE = 16 << 40  # bytes: the largest file of ext4
MOST_ZEROS = 1 << 20
"""Zeros that somebody writes this far into a file are counted, not kept."""


class Sparse(bytes):
    """The bytes of a file too large to be kept: those at its head, and zeros up to ``size``.

    ``space`` is what it takes of a disk: less where nothing was ever written (truncate).
    """

    size: int
    space: int

    def __new__(cls, head: bytes | bytearray, size: int, space: int) -> Sparse:
        """Return ``head``, followed by zeros."""
        made = super().__new__(cls, head)
        made.size, made.space = size, space
        return made

    @property
    def head(self) -> int:
        """How many bytes are kept."""
        return bytes.__len__(self)

    def copy(self) -> Sparse:
        """Return another one with the same bytes."""
        return Sparse(self[: self.head], self.size, self.space)

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return bytes.__getitem__(self, slice(None))  # what is kept: nobody who looks into a file is to fail

    def __getitem__(self, key: Any) -> Any:
        """Return a byte or a piece; raises FileError for a piece that is too large to be made."""
        if not isinstance(key, slice):
            return self[key : key + 1][0]
        start, stop, _ = key.indices(self.size)
        if stop - start > MOST_MADE:
            raise FileError("ENOMEM")
        piece = bytes.__getitem__(self, slice(min(start, self.head), min(stop, self.head)))
        return piece + bytes(max(stop - start, 0) - len(piece))


def kept(data: bytes | bytearray) -> int:
    """Return how many bytes of a file are really kept."""
    return data.head if isinstance(data, Sparse) else len(data)


def space(data: bytes | bytearray) -> int:
    """Return how many bytes of a disk a file takes."""
    return data.space if isinstance(data, Sparse) else len(data)


def whole(data: bytes | bytearray) -> bytes:
    """Return the bytes of a file, for another one: of a large one again only what is kept."""
    return data.copy() if isinstance(data, Sparse) else bytes(data)


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
