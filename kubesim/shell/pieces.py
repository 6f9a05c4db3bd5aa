"""What expansions give before it is split into fields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Piece:
    """Text that an expansion gave; what is not quoted may be split and is a pattern."""

    text: str
    quoted: bool
    split: bool = False


Pieces = list[Piece | None]  # None is a break between fields, as in "$@"
