"""Files larger than what is kept of them."""

from __future__ import annotations

from typing import Any

from kubesim.shell.errors import FileError

MOST_MADE = 64 << 20
"""How many bytes of a file that is not kept are made at once."""


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
