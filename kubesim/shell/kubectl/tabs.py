"""Text in elastic columns, aligned as Go's tabwriter does: cells end in tabs, columns in lines that lack them."""

from __future__ import annotations


def aligned(text: str) -> str:
    """Return text whose tabs have become spaces, at least two after each cell."""
    lines = [line.split("\t") for line in text.split("\n")]
    return "\n".join(_block(lines, []))


def _block(lines: list[list[str]], widths: list[int]) -> list[str]:
    """Return lines whose first columns have widths; those that follow each other with one more share its width."""
    out: list[str] = []
    column, at = len(widths), 0
    while at < len(lines):
        stop = at
        while stop < len(lines) and len(lines[stop]) - 1 > column:
            stop += 1
        if stop > at:
            out += _block(lines[at:stop], [*widths, max(len(line[column]) for line in lines[at:stop]) + 2])
            at = stop
        else:
            cells = [cell.ljust(width) for cell, width in zip(lines[at], widths, strict=False)]
            out.append("".join([*cells, *lines[at][column:]]))
            at += 1
    return out


def table(rows: list[list[str]], widths: list[int] | None = None) -> str:
    """Return rows in columns three spaces apart, at least six wide; ``widths`` remembers columns between calls."""
    known = widths if widths is not None else []
    for row in rows:
        known += [6] * (len(row) - len(known))
        for at, cell in enumerate(row):
            known[at] = max(known[at], len(cell) + 3)
    return "".join(
        "".join(cell.ljust(known[at]) if at + 1 < len(row) else cell for at, cell in enumerate(row)) + "\n"
        for row in rows
    )
