"""``test``, ``[`` and ``[[``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import regex

from kubesim.shell import patterns
from kubesim.shell.files import Device, Directory, File, Link
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Condition, Word
from kubesim.shell.state import ShellError, Variable

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

UNARY = frozenset("bcdefghkLnoprstuvwxzSGONR")  # o, v and R only in [[
NUMERIC = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
BINARY = {"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", *NUMERIC}
_COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
DEEPEST = 40


class TestError(Exception):
    """An expression that is none: ``kind`` is integer, unary, binary, many or bracket; ``word`` the culprit."""

    __test__ = False

    def __init__(self, kind: str, word: str = "") -> None:
        super().__init__(kind, word)
        self.kind = kind
        self.word = word

    def text(self, dialect: str) -> str:
        """Return the message as the dialect words it."""
        texts = _TEXTS[dialect]
        return (texts.get(self.kind) or texts["unary"]).format(word=self.word)


_TEXTS = {
    "bash": {
        "integer": "{word}: integer expression expected",
        "unary": "{word}: unary operator expected",
        "binary": "{word}: binary operator expected",
        "many": "too many arguments",
        "argument": "{word}: argument expected",
    },
    "dash": {"integer": "Illegal number: {word}", "unary": "{word}: unexpected operator"},
    "ash": {"integer": "{word}: bad number", "unary": "{word}: unknown operand"},
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
        return bool(_COMPARE[NUMERIC[op]](integer(left), integer(right)))
    if op in ("=", "==", "!=", "<", ">"):
        return bool(_COMPARE["==" if op == "=" else op](left, right))
    first, second = process.view.find(left), process.view.find(right)
    if op == "-ef":
        return first is not None and first is second
    if op == "-ot":
        first, second = second, first
    return first is not None and (second is None or first.mtime > second.mtime)


def single(process: Process, args: list[str]) -> bool:
    """Answer ``test args`` by their number, as POSIX says; raises TestError."""
    return _Single(process, args).answer()


class _Single:
    def __init__(self, process: Process, args: list[str]) -> None:
        self.process = process
        self.args = args
        self.at = 0
        self.depth = 0

    def answer(self) -> bool:
        args = self.args
        if len(args) == 0:
            return False
        if len(args) == 1:
            return args[0] != ""
        if len(args) == 2:
            return self._two(args)
        if len(args) == 3:
            if args[1] in BINARY:
                return binary(self.process, args[0], args[1], args[2])
            if args[1] in ("-a", "-o"):
                both = (args[0] != "", args[2] != "")
                return all(both) if args[1] == "-a" else any(both)
            if args[0] == "!":
                return not self._two(args[1:])
            if args[0] == "(" and args[2] == ")":
                return args[1] != ""
            if not self._is_unary(args[0]):
                raise TestError("binary", args[1])
        if len(args) == 4 and args[0] == "!":
            return not _Single(self.process, args[1:]).answer()
        value = self._or()
        if self.at < len(args):
            raise TestError("many", args[self.at])
        return value

    def _is_unary(self, word: str) -> bool:
        return len(word) == 2 and word[0] == "-" and word[1] in UNARY and word[1] not in "ovR"

    def _two(self, args: list[str]) -> bool:
        if args[0] == "!":
            return args[1] == ""
        if self._is_unary(args[0]):
            return unary(self.process, args[0][1], args[1])
        raise TestError("unary", args[0])

    def _peek(self) -> str | None:
        return self.args[self.at] if self.at < len(self.args) else None

    def _or(self) -> bool:
        value = self._and()
        while self._peek() == "-o":
            self.at += 1
            value = self._and() or value
        return value

    def _and(self) -> bool:
        value = self._not()
        while self._peek() == "-a":
            self.at += 1
            value = self._not() and value
        return value

    def _not(self) -> bool:
        self.depth += 1
        if self.depth > DEEPEST:
            raise TestError("many", self._peek() or "")
        try:
            if self._peek() == "!":
                self.at += 1
                return not self._not()
            return self._primary()
        finally:
            self.depth -= 1

    def _primary(self) -> bool:
        word = self._peek()
        if word is None:
            raise TestError("argument", self.args[-1])
        rest = self.args[self.at :]
        if len(rest) > 2 and rest[1] in BINARY:
            self.at += 3
            return binary(self.process, rest[0], rest[1], rest[2])
        if word == "(":
            self.at += 1
            value = self._or()
            if self._peek() != ")":
                raise TestError("argument", self.args[-1])
            self.at += 1
            return value
        if self._is_unary(word) and len(rest) > 1:
            self.at += 2
            return unary(self.process, word[1], rest[1])
        self.at += 1
        return word != ""


class Conditions:
    """``[[ ... ]]`` for one shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def double(self, node: Condition) -> int:
        """Return the status of ``[[ ... ]]``."""
        try:
            reader = _Double(self.shell, node.items)
            value = await reader.either(live=True)
            if reader.at < len(node.items):
                raise TestError("many")
        except TestError as error:
            await self.shell.complain(f"[[: {error.text(self.shell.dialect)}")
            return 2
        except ShellError as error:
            await self.shell.fault(error)
        return int(not value)


class _Double:
    """A recursive reading of the words between the brackets."""

    def __init__(self, shell: Shell, items: tuple[Word | str, ...]) -> None:
        self.shell = shell
        self.items = items
        self.at = 0
        self.depth = 0

    def _peek(self) -> Word | str | None:
        return self.items[self.at] if self.at < len(self.items) else None

    async def either(self, *, live: bool) -> bool:
        value = await self._both(live=live)
        while self._peek() == "||":
            self.at += 1
            right = await self._both(live=live and not value)
            value = value or right
        return value

    async def _both(self, *, live: bool) -> bool:
        value = await self._negated(live=live)
        while self._peek() == "&&":
            self.at += 1
            right = await self._negated(live=live and value)
            value = value and right
        return value

    async def _negated(self, *, live: bool) -> bool:
        self.depth += 1
        if self.depth > DEEPEST:
            raise TestError("many")
        try:
            if self._peek() == "!":
                self.at += 1
                return not await self._negated(live=live)
            if self._peek() == "(":
                self.at += 1
                value = await self.either(live=live)
                self.at += 1
                return value
            return await self._primary(live=live)
        finally:
            self.depth -= 1

    async def _primary(self, *, live: bool) -> bool:
        word = self._peek()
        if word is None:
            raise TestError("argument", "]]")
        self.at += 1
        op = self._operator()
        if op:
            self.at += 1
            right = self._peek()
            self.at += 1
            if right is None:
                raise TestError("argument", op)
            return await self._compare(word, op, right) if live else False
        flag = _literal(word)
        follower = self._peek()
        if (
            len(flag) == 2
            and flag[0] == "-"
            and flag[1] in UNARY
            and follower is not None
            and follower not in ("&&", "||", ")")
        ):
            self.at += 1
            return await self._unary(flag[1], follower) if live else False
        return (await self._text(word)) != "" if live else False

    def _operator(self) -> str:
        word = self._peek()
        if isinstance(word, str):
            return word if word in ("==", "=", "!=", "=~", "<", ">") else ""
        text = _literal(word) if word else ""
        return text if text in BINARY else ""

    async def _text(self, word: Word | str) -> str:
        return word if isinstance(word, str) else await self.shell.expander.value(word)

    async def _unary(self, op: str, word: Word | str) -> bool:
        text = await self._text(word)
        if op == "v":
            return self.shell.parameter(text) is not None
        if op == "o":
            return text in self.shell.state.options
        return unary(self.shell.process, op, text)

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
            return bool(_COMPARE[NUMERIC[op]](arithmetic(first), arithmetic(second)))
        return binary(self.shell.process, first, op, second)

    async def _regex(self, text: str, right: Word | str) -> bool:
        if isinstance(right, str):
            source = right
        else:
            chars = await self.shell.expander.pattern(right)
            source = "".join(regex.escape(piece) if quoted else piece for piece, quoted in chars)
        try:
            found = regex.search(source, text, timeout=patterns.MATCH_S)
        except (regex.error, TimeoutError):
            raise TestError("argument", source) from None
        groups = [found[0], *found.groups("")] if found else []
        self.shell.state.variables["BASH_REMATCH"] = Variable(dict(enumerate(groups)))
        return found is not None


def _literal(word: Word | str) -> str:
    if isinstance(word, str):
        return word
    return getattr(word[0], "value", "") if len(word) == 1 and not getattr(word[0], "quoted", True) else ""
