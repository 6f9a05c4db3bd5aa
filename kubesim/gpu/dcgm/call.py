"""What dcgmi is asked for: options, the devices that are meant, and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kubesim.gpu.smi.view import Seen, View


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


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most ``width``, broken between words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word[:width]
    return lines


BAD_PARAMETER, GENERIC, NOT_CONFIGURED, NOT_CONNECTED = 255, 253, 251, 235
BAD_PARAMETER_TEXT = "Bad parameter passed to function"
ALL_GPUS = "0"
NO_GROUP = "The Group is not found"
HINT = "Error: Required argument missing. For complete USAGE and HELP type: dcgmi --help"


class Refused(Exception):
    """What is asked for cannot be done: the text, and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Call:
    """What was asked for: the subsystem and its options, values by option."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    def given(self, *names: str) -> bool:
        """Whether one of these options stands there."""
        return any(name in self.options for name in names)

    def value(self, *names: str, default: str = "") -> str:
        """Return the value of the first of these options."""
        return next((self.options[name] for name in names if name in self.options), default)


def parse(argv: list[str]) -> Call:
    """Return what a command line asks for; a word that follows an option is its value."""
    call, last = Call(""), ""
    for word in argv:
        if word.startswith("-") and not word[1:].isdecimal():
            last, mark, value = word.partition("=")
            call.options[last] = value if mark else ""
        elif last and not call.options[last]:
            call.options[last] = word
        elif not call.name:
            call.name = word
    return call


def members(call: Call, view: View) -> list[Seen]:
    """Return the devices that are asked about, those that are lost, too: by ``-i``, or all. Raises Refused."""
    if ids := call.value("-i", "--gpuid", "--gpu-id"):
        return devices(view, ids)
    if (word := call.value("-g", "--group", default=ALL_GPUS)) not in (ALL_GPUS, "all_gpus"):
        text = f"Error: Unable to retrieve information about group {word}. Return: {NO_GROUP}."
        raise Refused(text, NOT_CONFIGURED)
    return view.all()


def devices(view: View, ids: str) -> list[Seen]:
    """Return devices by their numbers. Raises Refused."""
    known = {str(item.number): item for item in view.all()}
    words = [word.strip().removeprefix("gpu:") for word in ids.split(",")]
    if any(word not in known for word in words):
        raise Refused(f"Error: parsing for GPUs failed. Error: {BAD_PARAMETER_TEXT}", BAD_PARAMETER)
    return [known[word] for word in words]
