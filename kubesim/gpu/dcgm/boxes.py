"""The two tables of dcgmi: a tree of names with values, and columns; and both as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import orjson


@dataclass
class Node:
    """A named value with further lines, and what stands below it."""

    name: str
    value: str = ""
    more: list[str] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)


def tree(head: Sequence[str], nodes: Iterable[Node], left: int, right: int) -> str:
    """Return a tree with its headings; ``left`` and ``right`` are the widths of its halves."""
    rule = f"+{'-' * (left - 1)}+{'-' * (right - 2)}+"
    lines = [rule, *(f"| {text:<{left + right - 3}}|" for text in head)]
    lines += [rule.replace("-", "=")] if head else []
    for node in nodes:
        lines += _branch(node, 0, left - 3, right - 4)
    return "\n".join([*lines, rule]) + "\n"


def _branch(node: Node, level: int, left: int, right: int) -> list[str]:
    label = ("-> " if level else "").rjust(level * 3) + node.name
    lines = [f"| {label:<{left}} | {node.value:<{right}} |"]
    blank = " " * max(level * 3, 0)
    lines += [f"| {blank:<{left}} | {text:<{right}} |" for text in node.more]
    for each in node.below:
        lines += _branch(each, level + 1, left, right)
    return lines


def columns(
    widths: Sequence[int], names: Sequence[str], rows: Iterable[Sequence[Sequence[str]]], head: Sequence[str] = (),
    *, apart: bool = False,
) -> str:  # fmt: skip
    """Return columns; a row has lists of lines, one for each column. ``apart``: a rule stands between two rows."""
    rule = f"+{'+'.join('-' * width for width in widths)}+"
    lines = [rule]
    if head:
        lines += [*(f"| {text:<{sum(widths) + len(widths) - 2}}|" for text in head), rule.replace("-", "=")]
    lines += [_row(names, widths), rule]
    for number, cells in enumerate(rows):
        lines += [rule] if apart and number else []
        for line in range(max(map(len, cells), default=0)):
            lines.append(_row([cell[line] if line < len(cell) else "" for cell in cells], widths))
    return "\n".join([*lines, rule]) + "\n"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "|" + "|".join(f" {text:<{width - 2}} " for text, width in zip(cells, widths, strict=True)) + "|"


def as_json(head: Sequence[str], nodes: Iterable[Node]) -> str:
    """Return what a tree says, for ``-j``."""
    document = {"body": {node.name: _json(node) for node in nodes}, "header": list(head)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _json(node: Node) -> dict[str, object]:
    found: dict[str, object] = {"value": node.value} if node.value else {}
    if node.more:
        found["overflow"] = node.more
    if node.below:
        found["children"] = {each.name: _json(each) for each in node.below}
    return found


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most ``width``, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word[:width]
    return lines
