"""CEL's grammar: an expression as a tree, for what has to be known of it before it is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TOKEN = re.compile(
    r"""\s*(?://[^\n]*\n\s*)*(?:
    (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<int>(?:0x[0-9a-fA-F]+|\d+)[uU]?)
    |(?P<name>[_a-zA-Z]\w*|`[^`]*`)
    |(?P<op>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    )""",
    re.VERBOSE | re.DOTALL,
)
REST = re.compile(r"\s*(//[^\n]*(\n\s*|$))*")
"""Space and comments behind an expression."""
_ESCAPE = r"\\([abfnrtv\\?\"'`]|[xX][0-9a-fA-F]{2}|[0-3][0-7]{2}"
ESCAPE = re.compile(rf"{_ESCAPE}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}})")
ESCAPED = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))
LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
LITERALS = {"true": "bool", "false": "bool", "null": "null_type"}
DEEPEST = 50
DEEPEST_TREE = 150


class SyntaxFault(ValueError):
    """The text is no expression."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression: ``kind`` is literal, name, select, index, call, list, map or choice.

    ``text`` is a name, field, function or operator, of a literal its type; ``parts`` are what it is made of, of a
    call on something (``method``) that first. ``at`` is where errors point.
    """

    kind: str
    text: str
    at: int
    parts: tuple[Node, ...] = ()
    method: bool = field(default=False)
    source: str = ""
    """Of a literal what was written."""


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while not REST.fullmatch(text, at):
            found = TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise SyntaxFault(f"unexpected character at {at}")
            self.tokens.append((found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            at = found.end()
        self.tokens.append(("end", "", len(text)))
        self.next = 0
        self.depth = 0

    def peek(self) -> str:
        kind, text, _ = self.tokens[self.next]
        return text if kind in ("op", "name") else ""

    def take(self, wanted: str = "") -> tuple[str, str, int]:
        token = self.tokens[self.next]
        if token[0] == "end":
            raise SyntaxFault("the text ends too early")
        if wanted and (token[0] not in ("op", "name") or token[1] != wanted):
            raise SyntaxFault(f"{wanted!r} is missing at {token[2]}")
        self.next += 1
        return token

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise SyntaxFault("expression recursion limit exceeded")
        found = self.binary(0)
        if self.peek() == "?":
            at = self.take()[2]
            first = self.binary(0)
            self.take(":")
            found = Node("choice", "_?_:_", at, (found, first, self.expression()))
        self.depth -= 1
        return found

    def binary(self, level: int) -> Node:
        if level == len(LEVELS):
            return self.unary()
        found = self.binary(level + 1)
        while self.peek() in LEVELS[level]:
            _, text, at = self.take()
            name = "@in" if text == "in" else f"_{text}_"
            found = Node("call", name, at, (found, self.binary(level + 1)))
        return found

    def unary(self) -> Node:
        if self.peek() in ("!", "-"):
            _, text, at = self.take()
            return Node("call", f"{text}_", at, (self.unary(),))
        return self.member(self.primary())

    def member(self, found: Node) -> Node:
        while self.peek() in (".", "["):
            _, text, at = self.take()
            if text == "[":
                found = Node("index", "_[_]", at, (found, self.expression()))
                self.take("]")
                continue
            _, written, start = self.take()
            name = written.strip("`")
            if self.peek() == "(":
                start = self.take()[2]
                found = Node("call", name, start, (found, *self.items(")", self.expression)), method=True)
            else:
                found = Node("select", name, at, (found,))
        return found

    def primary(self) -> Node:
        kind, text, at = self.take()
        if kind == "string":
            if "b" in text.partition(text[-1])[0].lower():
                raise SyntaxFault("bytes are not supported")
            return Node("literal", "string", at, source=text)
        if kind in ("int", "float"):
            if text[-1] in "uU":
                raise SyntaxFault("numbers without a sign are not supported")
            return Node("literal", "double" if kind == "float" else "int", at, source=text)
        if text == ".":
            kind, text, at = self.take()
        if kind == "name":
            return self.named(text, at)
        closers: dict[str, tuple[str, str, Callable[[], Node]]] = {
            "[": ("list", "]", self.expression), "{": ("map", "}", self.entry),
        }  # fmt: skip
        if text == "(":
            found = self.expression()
            self.take(")")
            return found
        if text not in closers:
            raise SyntaxFault(f"unexpected {text!r} at {at}")
        name, closer, item = closers[text]
        return Node(name, name, at, tuple(self.items(closer, item)))

    def named(self, text: str, at: int) -> Node:
        if text in LITERALS:
            return Node("literal", LITERALS[text], at, source=text)
        if self.peek() == "(":
            start = self.take()[2]
            return Node("call", text, start, tuple(self.items(")", self.expression)))
        return Node("name", text.strip("`"), at)

    def entry(self) -> Node:
        key = self.expression()
        at = self.take(":")[2]
        return Node("entry", ":", at, (key, self.expression()))

    def items(self, closer: str, item: Callable[[], Node]) -> list[Node]:
        found = []
        while self.peek() != closer:
            found.append(item())
            if self.peek() != closer:
                self.take(",")
        self.take(closer)
        return found


def parse(text: str) -> Node:
    """Return an expression's tree. Raises SyntaxFault."""
    parser = _Parser(text)
    found = parser.expression()
    if parser.tokens[parser.next][0] != "end":
        raise SyntaxFault(f"unexpected {parser.tokens[parser.next][1]!r}")
    if _depth(found) > DEEPEST_TREE:
        raise SyntaxFault("expression recursion limit exceeded")
    return found


def mentions(node: Node, name: str) -> bool:
    """Tell whether an expression speaks of a name."""
    return (node.kind == "name" and node.text == name) or any(mentions(part, name) for part in node.parts)


def value_of(node: Node) -> Any:
    """Return the value of a literal. Raises SyntaxFault for a number that is none of its type."""
    match node.text:
        case "bool":
            return node.source == "true"
        case "null_type":
            return None
        case "double":
            return float(node.source)
        case "int":
            return int(node.source, 16 if "x" in node.source else 10)
    return _unquoted(node.source)


def _unquoted(source: str) -> str:
    """Return what a quoted text stands for."""
    prefix = source[: len(source) - len(source.lstrip("rRbB"))].lower()
    quoted = source[len(prefix) :]
    wide = 3 if quoted[:3] in ('"""', "'''") else 1
    text = quoted[wide:-wide]
    return text if "r" in prefix else ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    said = found[1]
    return ESCAPED.get(said) or chr(int(said.lstrip("xXuU"), 8 if said.isdigit() else 16))


def _depth(node: Node) -> int:
    """Return how many levels a tree has: long chains of operators are deep as well."""
    level, depth = [node], 0
    while level:
        level = [part for found in level for part in found.parts]
        depth += 1
    return depth
