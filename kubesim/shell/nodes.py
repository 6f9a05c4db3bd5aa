"""Nodes of a parsed script: words of parts, and commands; and the errors of one that is none."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves; unless quoted they may hold patterns, tildes and braces."""

    value: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Param:
    """``$name`` and every ``${...}``: ``op`` is what follows the name, ``#`` and ``!`` before it are ``before``."""

    name: str
    op: str = ""
    arg: Word | None = None
    more: Word | None = None
    index: Word | None = None
    before: str = ""
    quoted: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Sub:
    """``$(...)`` and backquotes."""

    body: Node
    quoted: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Arith:
    """``$((...))``."""

    text: Word
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class ProcSub:
    """``<(...)`` and ``>(...)``."""

    body: Node
    direction: str


@dataclass(frozen=True, slots=True)
class Array:
    """The ``(...)`` of an array's assignment."""

    words: tuple[Word, ...]


Part = Text | Param | Sub | Arith | ProcSub | Array
Word = tuple[Part, ...]


@dataclass(slots=True, eq=False)
class Redirect:
    """``fd op target``; ``fd`` is -1 where none was given. A here-document's text is ``target``, once it is read."""

    fd: int
    op: str
    target: Word
    source: str = ""


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, words and redirections."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    line: int = 1
    source: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands side by side; ``both`` says after which of them ``|&`` stood."""

    parts: tuple[Node, ...]
    negated: bool = False
    both: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Timed:
    """A pipeline whose time bash tells, ``posix`` in the form of -p."""

    part: Node
    posix: bool


@dataclass(frozen=True, slots=True)
class AndOr:
    """Commands with ``&&`` or ``||`` before all but the first."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands one after the other; True marks one in the background."""

    items: tuple[tuple[Node, bool, str], ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    """``( ... )``."""

    body: Node


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with their branches, and the last else."""

    branches: tuple[tuple[Node, Node], ...]
    other: Node | None


@dataclass(frozen=True, slots=True)
class While:
    """``while``, or ``until`` where ``until`` is set."""

    condition: Node
    body: Node
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    """``for name in words``; no words at all means the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


@dataclass(frozen=True, slots=True)
class CountingFor:
    """``for ((a; b; c))``."""

    start: Word
    condition: Word
    step: Word
    body: Node


@dataclass(frozen=True, slots=True)
class Case:
    """``case``: patterns and body of each item."""

    subject: Word
    items: tuple[tuple[tuple[Word, ...], Node], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A definition."""

    name: str
    body: Node
    source: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """``[[ ... ]]``: words and operators (as strings)."""

    items: tuple[Word | str, ...]
    line: int = 1


@dataclass(frozen=True, slots=True)
class Calculation:
    """``(( ... ))``."""

    text: Word
    line: int = 1


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Node
    redirects: tuple[Redirect, ...] = field(default=())


Node = (
    Simple
    | Pipeline
    | Timed
    | AndOr
    | Sequence
    | Subshell
    | If
    | While
    | For
    | CountingFor
    | Case
    | Function
    | Condition
    | Calculation
    | Redirected
)
NOTHING = Sequence(())


def literal(word: Word) -> str | None:
    """Return a word's text if it is plain and unquoted, else None."""
    if len(word) == 1 and isinstance(word[0], Text) and not word[0].quoted:
        return word[0].value
    return None


@dataclass(slots=True)
class Piece:
    """Text that an expansion gave; what is not quoted may be split and is a pattern."""

    text: str
    quoted: bool
    split: bool = False


Pieces = list[Piece | None]
"""None is a break between fields, as in "$@"."""


class ScriptError(Exception):
    """A script that cannot be parsed. ``unfinished`` says that more input could make it right."""

    def __init__(self, kind: str, token: str = "", *, line: int = 1, unfinished: bool = False) -> None:
        super().__init__(kind, token)
        self.kind = kind  # unexpected, end, quote, backquote, brace or deep
        self.token = token
        self.line = line
        self.unfinished = unfinished

    def text(self) -> str:
        """Return what the shell prints after its own name and position, without the offending line."""
        if self.kind in ("quote", "backquote", "brace"):
            closer = {"backquote": "`", "brace": "}"}.get(self.kind, self.token)
            return f"unexpected EOF while looking for matching `{closer}'"
        texts = {"end": "syntax error: unexpected end of file", "deep": "memory exhausted"}
        return texts.get(self.kind, f"syntax error near unexpected token `{self.token}'")
