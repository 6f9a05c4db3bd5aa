"""What messages tell of the names in an expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.terraform.syntax import Node
from kubesim.terraform.values import ANY, Map, Unknown, hcl, type_name, type_of


def references(node: Any) -> Iterator[Node]:
    """Yield the names that an expression mentions, each with its steps."""
    if not isinstance(node, list) or not node:
        return
    if node[0] in ("attr", "index", "root") and isinstance(node[1], list) and _plain_chain(node):
        if node[0] != "root":
            yield node
        return
    for each in node:
        yield from references(each)


def _plain_chain(node: Node) -> bool:
    while node[0] != "root":
        if node[0] not in ("attr", "index") or (node[0] == "index" and node[3][0] != "lit"):
            return False
        node = node[2]
    return True


def spelled(node: Node) -> str:
    """Return a chain of steps as it is written."""
    if node[0] == "attr":
        return f"{spelled(node[2])}.{node[3]}"
    if node[0] == "index":
        return f"{spelled(node[2])}[{hcl(node[3][2]) if node[3][0] == 'lit' else '...'}]"
    return str(node[2]) if node[0] == "root" else "..."


def described(value: Any) -> str:
    """Return what a message tells of a value."""
    if isinstance(value, Unknown):
        return f"is a {type_name(value.type)}" if value.type != ANY else "will be known only after apply"
    if isinstance(value, dict | list):
        word = "attribute" if isinstance(value, dict) and not isinstance(value, Map) else "element"
        text = f"is {type_name(type_of(value))} with {len(value)} {word}{'' if len(value) == 1 else 's'}"
        return text.replace(f"with 0 {word}s", f"with no {word}s") if not value else text
    return f"is {hcl(value)}"


def type_at(kind: Any, key: Any) -> Any:
    """Return the type of an attribute or element of a type."""
    if isinstance(kind, list):
        if kind[0] == "object":
            return kind[1].get(key, ANY)
        if kind[0] == "tuple":
            return kind[1][key] if isinstance(key, int) and key < len(kind[1]) else ANY
        return kind[1]
    return ANY
