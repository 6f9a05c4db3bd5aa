"""Text in elastic columns, aligned as Go's tabwriter does: cells end in tabs, columns in lines that lack them."""

from __future__ import annotations


def aligned(text: str, least: int = 0, gap: int = 2) -> str:
    """Return text whose tabs have become spaces: ``gap`` after the widest cell, ``least`` characters in all."""
    lines = [line.split("\t") for line in text.split("\n")]
    out: list[str] = []
    _block(lines, 0, len(lines), [], least, gap, out)
    return "\n".join(out)


def _block(
    lines: list[list[str]], start: int, end: int, widths: list[int], least: int, gap: int, out: list[str]
) -> None:
    at, column = start, len(widths)
    while at < end:
        if len(lines[at]) - 1 <= column:
            out.append(_padded(lines[at], widths))
            at += 1
            continue
        stop = at
        while stop < end and len(lines[stop]) - 1 > column:
            stop += 1
        width = max(least, max(len(line[column]) for line in lines[at:stop]) + gap)
        _block(lines, at, stop, [*widths, width], least, gap, out)
        at = stop


def _padded(cells: list[str], widths: list[int]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)) + "".join(
        cells[len(widths) :]
    )


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
