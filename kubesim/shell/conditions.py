"""``test``, ``[`` and ``[[``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING

import regex

from kubesim.shell import patterns
from kubesim.shell.files import Device, Directory, File, Link
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Condition, Word
from kubesim.shell.state import ShellError, Variable

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

UNARY = frozenset("bcdefghkLnoprstuvwxzSGONR")  # o, v and R are bash's
NUMERIC = {"-eq": eq, "-ne": ne, "-lt": lt, "-le": le, "-gt": gt, "-ge": ge}
TEXTUAL = {"=": eq, "==": eq, "!=": ne, "<": lt, ">": gt}
BINARY = frozenset({*NUMERIC, *TEXTUAL, "-nt", "-ot", "-ef"})
DEEPEST = 40


class TestError(Exception):
    """An expression that is none: ``kind`` is integer, unary, binary, many or bracket; ``word`` the culprit."""

    __test__ = False

    def __init__(self, kind: str, word: str = "") -> None:
        super().__init__(kind, word)
        self.kind = kind
        self.word = word

    def text(self) -> str:
        """Return the message in bash's words."""
        return _TEXTS[self.kind].format(word=self.word)


_TEXTS = {
    "integer": "{word}: integer expression expected",
    "unary": "{word}: unary operator expected",
    "binary": "{word}: binary operator expected",
    "many": "too many arguments",
    "argument": "{word}: argument expected",
}


def unary(process: Process, op: str, word: str) -> bool:
    """Answer ``-f word`` and its like."""
    if op == "n":
        return word != ""
    if op == "z":
        return word == ""
    if op == "t":
        handle = process.fds.get(int(word)) if word.isdecimal() else None
        return bool(handle and handle.tty)
    return _about_file(process, op, word)


def _about_file(process: Process, op: str, word: str) -> bool:
    view = process.view
    if op in "hL":
        return isinstance(view.find(word, follow=False), Link)
    node = view.find(word)
    if node is None:
        return False
    if op in "rwx":
        return view.may(node, {"r": 4, "w": 2, "x": 1}[op])
    kinds = {"f": File, "d": Directory, "c": Device}
    if op in kinds:
        return isinstance(node, kinds[op])
    if op == "s":
        return isinstance(node, Directory) or isinstance(node, File) and bool(node.content())
    bits = {"u": 0o4000, "g": 0o2000, "k": 0o1000}
    if op in bits:
        return bool(node.mode & bits[op])
    return op in "eaN" or op == "O" and node.uid == view.uid or op == "G" and node.gid == view.gid


def integer(word: str) -> int:
    """Return a number as test reads it; raises TestError."""
    if not re.fullmatch(r"\s*[+-]?\d{1,30}\s*", word):
        raise TestError("integer", word)
    return int(word)


def binary(process: Process, left: str, op: str, right: str) -> bool:
    """Answer ``left op right`` for words."""
    if op in NUMERIC:
        return bool(NUMERIC[op](integer(left), integer(right)))
    if op in TEXTUAL:
        return bool(TEXTUAL[op](left, right))
    first, second = process.view.find(left), process.view.find(right)
    if op == "-ef":
        return first is not None and first is second
    if op == "-ot":
        first, second = second, first
    return first is not None and (second is None or first.mtime > second.mtime)


async def single(process: Process, args: list[str], shell: Shell | None = None) -> bool:
    """Answer ``test args``, of a shell or as a program; raises TestError."""
    reader = _Reader(process, args, shell)
    value = bool(args) and await reader.either(live=True)
    if reader.at < len(args):
        if len(args) == 2 or len(args) == 3 and not reader.is_unary(args[0]):
            raise TestError("unary" if len(args) == 2 else "binary", args[-2])
        raise TestError("many", args[reader.at])
    return value


async def double(shell: Shell, node: Condition) -> int:
    """Return the status of ``[[ ... ]]``."""
    try:
        reader = _Double(shell, node.items)
        value = await reader.either(live=True)
        if reader.at < len(node.items):
            raise TestError("many")
    except TestError as error:
        await shell.complain(f"[[: {error.text()}")
        return 2
    except ShellError as error:
        await shell.fault(error)
    return int(not value)


class _Reader:
    """A recursive reading of the arguments of ``test``, all of which are evaluated."""

    either_word, both_word = "-o", "-a"
    lazy = False
    """True while text that cannot change the result is only read, not evaluated."""

    def __init__(self, process: Process, items: Sequence[Word | str], shell: Shell | None) -> None:
        self.process = process
        self.items = items
        self.shell = shell
        self.at = 0
        self.depth = 0

    def _peek(self, ahead: int = 0) -> Word | str | None:
        return self.items[self.at + ahead] if self.at + ahead < len(self.items) else None

    def _take(self, text: str) -> bool:
        """Pass over an operator, if it is the next word."""
        found = self._peek() == text
        self.at += found
        return found

    def _next(self) -> Word | str:
        word = self._peek()
        if word is None:
            raise TestError("argument", _literal(self.items[-1]))
        self.at += 1
        return word

    async def either(self, *, live: bool) -> bool:
        """Return the value of an expression; one that is not ``live`` is only read."""
        value = await self._both(live=live)
        while self._take(self.either_word):
            right = await self._both(live=live and not (self.lazy and value))
            value = value or right
        return value

    async def _both(self, *, live: bool) -> bool:
        value = await self._negated(live=live)
        while self._take(self.both_word):
            right = await self._negated(live=live and (value or not self.lazy))
            value = value and right
        return value

    async def _negated(self, *, live: bool) -> bool:
        self.depth += 1
        if self.depth > DEEPEST:
            raise TestError("many", _literal(self._peek()))
        try:
            if self._peek(1) is not None and not self._operator(1) and self._take("!"):
                return not await self._negated(live=live)
            return await self._primary(live=live)
        finally:
            self.depth -= 1

    async def _primary(self, *, live: bool) -> bool:
        word = self._next()
        if op := self._operator():
            self.at += 1
            right = self._next()
            return live and await self._compare(word, op, right)
        if word == "(" and self._peek() is not None:
            value = await self.either(live=live)
            if not self._take(")"):
                raise TestError("argument", _literal(self.items[-1]))
            return value
        flag = _literal(word)
        if self.is_unary(flag) and not (self._peek() is None or self.lazy and self._peek() in ("&&", "||", ")")):
            operand = self._next()
            return live and await self._unary(flag[1], operand)
        return live and (await self._text(word)) != ""

    def _operator(self, ahead: int = 0) -> str:
        """Return the next word if it is an operator with something after it."""
        word = _literal(self._peek(ahead))
        return word if word in BINARY and self._peek(ahead + 1) is not None else ""

    def is_unary(self, word: str) -> bool:
        """Tell whether a word is an operator before another."""
        return len(word) == 2 and word[0] == "-" and word[1] in UNARY

    async def _text(self, word: Word | str) -> str:
        if self.shell is None or isinstance(word, str):
            return str(word)
        return await self.shell.expander.value(word)

    async def _unary(self, op: str, word: Word | str) -> bool:
        text = await self._text(word)
        if self.shell is not None and op in "vo":
            return self.shell.parameter(text) is not None if op == "v" else text in self.shell.state.options
        return unary(self.process, op, text)

    async def _compare(self, left: Word | str, op: str, right: Word | str) -> bool:
        return binary(self.process, await self._text(left), op, await self._text(right))


class _Double(_Reader):
    """A reading of the words between ``[[`` and ``]]``."""

    either_word, both_word = "||", "&&"
    lazy = True
    shell: Shell

    def __init__(self, shell: Shell, items: tuple[Word | str, ...]) -> None:
        super().__init__(shell.process, items, shell)

    def _operator(self, ahead: int = 0) -> str:
        word = self._peek(ahead)
        return "=~" if word == "=~" else _literal(word) if _literal(word) in BINARY else ""

    async def _compare(self, left: Word | str, op: str, right: Word | str) -> bool:
        first = await self._text(left)
        if op == "=~":
            return await self._regex(first, right)
        if op in ("==", "=", "!="):
            chars = ((right, False),) if isinstance(right, str) else await self.shell.expander.pattern(right)
            return patterns.matches(chars, first, extended=True) == (op != "!=")
        second = await self._text(right)
        if op in NUMERIC:
            arithmetic = self.shell.expander.arithmetic
            return bool(NUMERIC[op](arithmetic(first), arithmetic(second)))
        return binary(self.process, first, op, second)

    async def _regex(self, text: str, right: Word | str) -> bool:
        chars = ((right, False),) if isinstance(right, str) else await self.shell.expander.pattern(right)
        source = "".join(regex.escape(piece) if quoted else piece for piece, quoted in chars)
        try:
            found = regex.search(source, text, timeout=patterns.MATCH_S)
        except (regex.error, TimeoutError):
            raise TestError("argument", source) from None
        groups = [found[0], *found.groups("")] if found else []
        self.shell.state.variables["BASH_REMATCH"] = Variable(dict(enumerate(groups)))
        return found is not None


def _literal(word: Word | str | None) -> str:
    if isinstance(word, str):
        return word
    if word is None:
        return ""
    return getattr(word[0], "value", "") if len(word) == 1 and not getattr(word[0], "quoted", True) else ""
