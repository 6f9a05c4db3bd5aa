"""What upstream finds wrong with the constants of a CEL expression before it is run: times, patterns, formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubesim.cel.standard import CLAUSE, CLAUSES, STANDARD, pattern
from kubesim.cel.syntax import Node, value_of
from kubesim.cel.values import CelError, Uint

READ: dict[str, Callable[..., Any]] = {
    "duration": STANDARD["duration"],
    "timestamp": STANDARD["timestamp"],
    "matches": pattern,
}
"""What reads the text that a function is given."""
CONVERSIONS = ("int", "uint", "double", "bool")
FOLDED = "program instantiation failed: {}"


def faults(tree: Node, kinds: Mapping[int, Any]) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with constants, and where; ``kinds`` are the types of the tree's parts."""
    for node in parts_of(tree):
        if node.kind == "call" and node.parts:
            yield from _text_faults(node)
            yield from _format_faults(node, kinds)


def parts_of(node: Node) -> Iterator[Node]:
    """Yield a tree's parts, itself first."""
    yield node
    for part in node.parts:
        yield from parts_of(part)


def _text_faults(node: Node) -> Iterator[tuple[int, str]]:
    read, last = READ.get(node.text), node.parts[-1]
    if read is None or last.text != "string" or last.kind != "literal" or len(node.parts) != 1 + node.method:
        return
    try:
        read(value_of(last))
    except CelError:
        yield last.at, f"invalid {node.text} argument"


def _format_faults(node: Node, kinds: Mapping[int, Any]) -> Iterator[tuple[int, str]]:
    if node.text != "format" or len(node.parts) != 2 or not node.method:
        return
    text, items = node.parts
    if text.text != "string" or text.kind != "literal" or items.kind != "list":
        return
    left = iter(items.parts)
    for found in CLAUSE.finditer(value_of(text)):
        verb, item = found[2], next(left, None) if found[2] else None
        if found[0] == "%":
            said = "unexpected end of string"
        elif not verb:
            continue
        elif item is None:
            said = f"index {len(items.parts)} out of range"
        elif verb not in CLAUSES:
            said = f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
        else:
            yield from _clause_faults(verb, item, kinds)
            continue
        yield node.at, said
        return


def _clause_faults(verb: str, item: Node, kinds: Mapping[int, Any]) -> Iterator[tuple[int, str]]:
    takes, wanted = CLAUSES[verb]
    kind = kinds.get(id(item))
    name = NAMES.get(kind if isinstance(kind, str) else kind[0] if kind else "", "")
    if name and name not in takes:
        yield item.at, f"error during formatting: {wanted}, was given {name}"


NAMES = {name: name for name in ("int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type")} | {
    "timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration",
}  # fmt: skip


def unfoldable(tree: Node) -> str:
    """Return what is said of a conversion of a constant that has no value; nothing where all have one."""
    for node in parts_of(tree):
        if node.kind != "call" or node.method or node.text not in CONVERSIONS or len(node.parts) != 1:
            continue
        try:
            if (value := _constant(node.parts[0])) is not None:
                STANDARD[node.text](value)
        except CelError as error:
            return FOLDED.format(error)
    return ""


def _constant(node: Node) -> Any:
    if node.kind == "literal" and node.text != "null_type":
        value = value_of(node)
        return Uint(value) if node.text == "uint" else value
    inner = _constant(node.parts[0]) if node.text == "-_" else None
    return -inner if isinstance(inner, int | float) else None
