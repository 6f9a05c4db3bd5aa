"""Go's text/template as kubectl's ``-o go-template`` takes it: texts, pipelines, if, range, with, define.

Source of the language: https://pkg.go.dev/text/template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell.kubectl.gofunctions import FUNCTIONS, unquoted

_ACTION = re.compile(
    r"""\{\{(?P<left>-(?=\s))?\s*(?:(?P<note>/\*.*?\*/)\s*(?P<shut>-?\}\})|"""
    r"""(?P<inner>(?:"(?:\\.|[^"\\\n])*"|`[^`]*`|'(?:\\.|[^'\\\n])*'|[^"'`}]|\}(?!\}))*?)(?P<right>(?<=\s)-)?\}\})""",
    re.DOTALL,
)
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`)|(?P<char>'(?:\\.|[^'\\\n])+')"""
    r"""|(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?))|(?P<variable>\$\w*)"""
    r"""|(?P<field>\.\w+)|(?P<dot>\.)|(?P<name>\w+)|(?P<mark>:=|[=|(),])"""
)
MOST_DEEP = 100
WORDS = ("if", "range", "with", "define", "block", "template", "end", "else", "break", "continue")


class TemplateError(Exception):
    """What is wrong with a template, in the words of Go's package."""


@dataclass(frozen=True)
class Operand:
    """A value in a pipeline: what it is (``kind``), and the fields that follow it."""

    kind: str
    value: Any = None
    fields: tuple[str, ...] = ()
    text: str = ""
    at: int = 0


@dataclass(frozen=True)
class Pipe:
    """Commands, each a list of operands, whose result the last variables of ``names`` get."""

    commands: tuple[tuple[Operand, ...], ...]
    names: tuple[str, ...] = ()
    declares: bool = True


@dataclass
class Node:
    """One piece of a template: text, an action, or a block with its bodies."""

    kind: str
    text: str = ""
    pipe: Pipe | None = None
    body: list[Node] = field(default_factory=list)
    other: list[Node] = field(default_factory=list)


def _position(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


class Parser:
    """Reads one template; ``named`` are those that it defines."""

    def __init__(self, source: str, name: str = "output") -> None:
        self.source = source
        self.name = name
        self.named: dict[str, list[Node]] = {}
        self._pieces = list(self._split())
        self._at = 0
        self._known = {"$"}
        self._deep = 0

    def fail(self, text: str, at: int) -> TemplateError:
        """Return an error at a place of the source."""
        return TemplateError(f"template: {self.name}:{_position(self.source, at)}: {text}")

    def parse(self) -> list[Node]:
        """Return the template's nodes. Raises TemplateError."""
        nodes, word = self._list()
        if word:
            raise self.fail(f"unexpected {{{{{word}}}}}", self._pieces[self._at - 1][2])
        return nodes

    def _split(self) -> Iterator[tuple[str, str, int]]:
        """Yield texts and actions, the blanks gone that ``{{-`` and ``-}}`` ask away."""
        at, trim = 0, False
        while at < len(self.source):
            start = self.source.find("{{", at)
            text = self.source[at : start if start >= 0 else None]
            match = _ACTION.match(self.source, start) if start >= 0 else None
            if start >= 0 and match is None:
                raise self._unclosed(start)
            shown = text.lstrip() if trim else text
            if match is not None and match["left"]:
                shown = shown.rstrip()
            if shown:
                yield "text", shown, at
            if match is None:
                return
            trim = bool(match["right"]) or (match["shut"] or "").startswith("-")
            if match["note"] is None:
                yield "action", match["inner"] or "", match.start("inner")
            at = match.end()

    def _unclosed(self, start: int) -> TemplateError:
        rest = self.source[start + 2 :]
        if rest.lstrip("- ").startswith("/*"):
            return self.fail("unclosed comment", start)
        odd = re.sub(r'"(?:\\.|[^"\\\n])*"', "", rest).count('"') % 2
        return self.fail("unterminated quoted string" if odd else "unclosed action", start)

    def _list(self) -> tuple[list[Node], str]:
        """Return nodes up to an ``end`` or ``else``, and that action's text."""
        nodes: list[Node] = []
        while self._at < len(self._pieces):
            kind, text, at = self._pieces[self._at]
            self._at += 1
            if kind == "text":
                nodes.append(Node("text", text))
                continue
            word = match[0] if (match := re.match(r"\w+", text)) else ""
            if word in ("end", "else"):
                return nodes, text.strip()
            nodes.append(self._node(word, text, at))
        return nodes, ""

    def _node(self, word: str, text: str, at: int) -> Node:
        if word in ("if", "range", "with"):
            return self._block(word, text[len(word) :], at + len(word))
        if word in ("define", "block"):
            return self._define(word, text, at)
        if word == "template":
            called, rest = self._named(text[len(word) :], at)
            return Node("template", called, self._pipe(rest, at) if rest.strip() else None)
        if word in ("break", "continue"):
            return Node(word)
        return Node("action", text, self._pipe(text, at))

    def _named(self, text: str, at: int) -> tuple[str, str]:
        match = re.match(r'\s*("(?:\\.|[^"\\])*"|`[^`]*`)', text)
        if match is None:
            raise self.fail(f"unexpected {text.strip()!r} in template clause", at)
        return unquoted(match[1]), text[match.end() :]

    def _define(self, word: str, text: str, at: int) -> Node:
        called, rest = self._named(text[len(word) :], at)
        body, end = self._list()
        if end != "end":
            raise self.fail("unexpected EOF" if not end else f"unexpected {{{{{end}}}}} in {word} clause", at)
        self.named[called] = body
        return Node("template", called, self._pipe(rest, at)) if word == "block" else Node("text")

    def _block(self, word: str, text: str, at: int) -> Node:
        known = set(self._known)
        self._deep += 1
        if self._deep > MOST_DEEP:
            raise self.fail("exceeded maximum template depth", at)
        made = Node(word, text, self._pipe(text, at, word))
        made.body, end = self._list()
        if end.startswith("else"):
            place = self._pieces[self._at - 1][2]
            inner = end[4:].strip()
            if inner.split(" ")[0] in ("if", "with"):
                made.other = [self._node(inner.split(" ")[0], inner, place)]
                end = "end"
            else:
                made.other, end = self._list()
        if end != "end":
            raise self.fail("unexpected EOF" if not end else f"unexpected {{{{{end}}}}}", len(self.source))
        self._known, self._deep = known, self._deep - 1
        return made

    def _tokens(self, text: str, at: int) -> list[tuple[str, str, int]]:
        found, here = [], 0
        while here < len(text):
            match = _TOKEN.match(text, here)
            if match is None:
                odd = text[here]
                reason = "unterminated quoted string" if odd in "\"'`" else f"unexpected {odd!r} in command"
                raise self.fail(reason.replace("'", '"') if reason[0] == "u" and odd not in "\"'`" else reason, at)
            found.append((str(match.lastgroup), match[0], at + here))
            here = match.end()
        return found

    def _pipe(self, text: str, at: int, context: str = "command") -> Pipe:
        tokens = self._tokens(text, at)
        made = self._pipeline(tokens, context, at)
        if tokens:
            raise self.fail(f'unexpected "{tokens[0][1]}" in {context}', tokens[0][2])
        return made

    def _pipeline(self, tokens: list[tuple[str, str, int]], context: str, at: int) -> Pipe:
        names, declares = self._declared(tokens, context)
        commands: list[tuple[Operand, ...]] = []
        operands: list[Operand] = []
        while tokens and tokens[0][1] != ")":
            kind, text, place = tokens[0]
            if kind == "space":
                tokens.pop(0)
            elif text == "|":
                tokens.pop(0)
                commands.append(self._whole(operands, context, place))
                operands = []
            else:
                operands.append(self._operand(tokens, context))
        commands.append(self._whole(operands, context, at))
        if declares:
            self._known |= {*names}
        return Pipe(tuple(commands), names, declares)

    def _whole(self, operands: list[Operand], context: str, at: int) -> tuple[Operand, ...]:
        if not operands:
            raise self.fail(f"missing value for {context}", at)
        return tuple(operands)

    def _declared(self, tokens: list[tuple[str, str, int]], context: str) -> tuple[tuple[str, ...], bool]:
        """Take ``$a, $b :=`` or ``$a =`` off the tokens."""
        kept = [(at, each) for at, each in enumerate(tokens) if each[0] != "space"]
        for count in (1, 3):
            if len(kept) <= count or kept[count][1][1] not in (":=", "="):
                continue
            names = [kept[index][1] for index in range(0, count, 2)]
            commas = all(kept[index][1][1] == "," for index in range(1, count, 2))
            if commas and all(each[0] == "variable" for each in names) and (count == 1 or context == "range"):
                del tokens[: kept[count][0] + 1]
                return tuple(each[1] for each in names), kept[count][1][1] == ":="
        return (), True

    def _operand(self, tokens: list[tuple[str, str, int]], context: str) -> Operand:
        kind, text, at = tokens.pop(0)
        if text == "(":
            self._deep += 1
            if self._deep > MOST_DEEP:
                raise self.fail("max expression depth exceeded", at)
            inner = self._pipeline(tokens, "parenthesized pipeline", at)
            if not tokens:
                raise self.fail("unclosed left paren", at)
            tokens.pop(0)
            self._deep -= 1
            made = Operand("pipe", inner, text="(…)", at=at)
        else:
            made = self._plain(kind, text, at, context)
        fields, where = list(made.fields), made.at
        while tokens and tokens[0][0] == "field":
            where = tokens[0][2]
            fields.append(tokens.pop(0)[1][1:])
        shown = text + "".join(f".{each}" for each in fields[len(made.fields) :])
        return Operand(made.kind, made.value, tuple(fields), shown, where)

    def _plain(self, kind: str, text: str, at: int, context: str) -> Operand:
        if kind == "field":
            return Operand("dot", None, (text[1:],), text, at)
        if kind == "dot":
            return Operand("dot", None, (), text, at)
        if kind == "variable":
            if text not in self._known:
                raise self.fail(f'undefined variable "{text}"', at)
            return Operand("variable", text, (), text, at)
        if kind == "string":
            return Operand("value", unquoted(text), (), text, at)
        if kind == "char":
            return Operand("value", ord(unquoted(f'"{text[1:-1]}"')[:1] or "\0"), (), text, at)
        if kind == "number":
            return Operand("value", _number(text), (), text, at)
        if text in ("true", "false", "nil"):
            return Operand("value", {"true": True, "false": False}.get(text), (), text, at)
        if kind == "name" and text not in WORDS:
            if text not in FUNCTIONS:
                raise self.fail(f'function "{text}" not defined', at)
            return Operand("function", text, (), text, at)
        odd = f'"{text}"' if kind == "mark" else f"<{text}>"
        raise self.fail(f"unexpected {odd} in {context}", at)


def _number(text: str) -> int | float:
    plain = text.replace("_", "")
    try:
        return int(plain, 0)
    except ValueError:
        return float(plain) if not re.fullmatch(r"[+-]?0\d+", plain) else int(plain, 8)


def parse(source: str) -> tuple[list[Node], Mapping[str, list[Node]]]:
    """Return a template's nodes and what it defines by name. Raises TemplateError."""
    parser = Parser(source)
    return parser.parse(), parser.named
