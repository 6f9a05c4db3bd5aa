"""The table of a fault library's C source: read from its rows, and carried by the library that gcc makes of it.

Nothing of the source is run, and nothing but comments, ``#define``, ``enum`` and the rows of its tables is read:
arrays whose rows are ``{Xid, CUDA error, "text"}``, each number written as such or as a name.
"""

from __future__ import annotations

import json
import re
from dataclasses import astuple, dataclass

from kubesim import data

HEAD = b"\x7fELF\x02\x01\x01".ljust(64, b"\0")
SECTION = b"\0.rodata.xids\0"
SIZE = 15872
"""Bytes of a small shared library, at the least."""
MAX_ERROR = 2**31 - 1
_names: data.Reader[dict[str, int]] = data.beside(__file__, "cuda_errors.yaml")
_OPAQUE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?[ \t]*(\w+)[ \t]*\)?[ \t]*$", re.MULTILINE)
_ENUM = re.compile(r"\benum\b\s*\w*\s*\{([^{}]*)\}")
_TABLE = re.compile(r"=\s*(?=\{\s*\{)")
_STRING = r'"(?:\\.|[^"\\\n])*"'
_ROW = re.compile(rf"\{{\s*(\w+)\s*,\s*(\w+)\s*,\s*({_STRING}(?:\s*{_STRING})*)\s*,?\s*\}}")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)[uUlL]*")
_TOKEN = re.compile(rf"{_STRING}|\w+|\S")


class CompileError(Exception):
    """The source cannot be compiled; the message is what gcc prints."""


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One row of a table: the Xid, CUDA's error for it, and what it is called."""

    xid: int
    error: int
    text: str


def read_table(source: str, path: str) -> list[FaultRow]:
    """Return the rows of a C source in their order, none where it has no table. Raises ``CompileError``."""
    return _Source(source, path).rows()


def pack(rows: list[FaultRow]) -> bytes:
    """Return the shared library that carries rows."""
    whole = HEAD + SECTION + json.dumps([astuple(row) for row in rows]).encode()
    return whole.ljust(SIZE, b"\0")


def unpack(library: bytes) -> list[FaultRow]:
    """Return the rows that a shared library carries; none of another's."""
    _, marked, rest = library.partition(SECTION)
    return [FaultRow(*row) for row in json.loads(rest.rstrip(b"\0"))] if marked else []


class _Source:
    """A C source without its comments, of which every character keeps its place."""

    def __init__(self, text: str, path: str) -> None:
        self._lines = text.splitlines()
        self._path = path
        self._text = _OPAQUE.sub(lambda found: found[0] if found[0][0] == '"' else _blank(found[0]), text)
        self._known = {**_names(), **self._constants()}

    def _constants(self) -> dict[str, int]:
        """Return what the file itself defines."""
        found: dict[str, int] = {}
        for name, value in _DEFINE.findall(self._text):
            if (number := self._number(value, found)) is not None:
                found[name] = number
        for body in _ENUM.findall(self._text):
            following = 0
            for entry in filter(str.strip, body.split(",")):
                name, _, value = (part.strip() for part in entry.partition("="))
                number = self._number(value, found) if value else None
                found[name] = following if number is None else number
                following = found[name] + 1
        return found

    def _number(self, word: str, known: dict[str, int]) -> int | None:
        if match := _NUMBER.fullmatch(word):
            digits = match[1]
            return int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
        return known.get(word, _names().get(word))

    def rows(self) -> list[FaultRow]:
        """Return the rows of all tables."""
        return [row for found in _TABLE.finditer(self._text) for row in self._table(found.end())]

    def _table(self, start: int) -> list[FaultRow]:
        """Return the rows of the array that begins at a brace; none where its rows are of another kind."""
        rows: list[FaultRow] = []
        at = self._skip(start + 1)
        while self._text[at : at + 1] != "}":
            match = _ROW.match(self._text, at)
            if match is None:
                if not rows and not _ROW.search(self._text, at, self._end(start)):
                    return []
                raise self._unreadable(at)
            rows.append(self._row(match))
            at = self._skip(match.end())
            if self._text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self._text[at : at + 1] != "}":
                raise self._expected(at)
        return rows

    def _row(self, match: re.Match[str]) -> FaultRow:
        xid, error = self._value(match, 1), self._value(match, 2)
        texts = re.findall(_STRING, match[3])
        return FaultRow(xid, error, "".join(text[1:-1] for text in texts))

    def _value(self, match: re.Match[str], group: int) -> int:
        word, at = match[group], match.start(group)
        number = self._number(word, self._known)
        if number is None and word[0].isdigit():
            rest = word.lstrip("0123456789")
            raise self._error(at, f'invalid suffix "{rest}" on integer constant', len(word))
        if number is None:
            raise self._error(at, f"'{word}' undeclared here (not in a function)", len(word))
        if number > MAX_ERROR:
            raise self._error(at, f"overflow in conversion to 'int' of '{word}'", len(word))
        return number

    def _unreadable(self, at: int) -> CompileError:
        """Return the error of a row that is not a number, a number and a text: at the first token that is wrong."""
        if self._text[at : at + 1] != "{":
            return self._expected(at)
        for pattern in (r"\{", r"\w+", ",", r"\w+", ",", _STRING):
            token = re.compile(pattern).match(self._text, at)
            if token is None:
                return self._expected(at)
            at = self._skip(token.end())
        return self._expected(at)

    def _expected(self, at: int) -> CompileError:
        """Return gcc's error of a token that nothing in the array can begin with."""
        token = _TOKEN.match(self._text, at)
        if token is None:
            return self._error(at, "expected '}' at end of input", 1)
        kinds = {'"': "string constant", "0": "numeric constant"}
        kind = kinds.get("0" if token[0][0].isdigit() else token[0][0], f"'{token[0]}' token")
        return self._error(at, f"expected '}}' before {kind}", len(token[0]))

    def _error(self, at: int, what: str, width: int) -> CompileError:
        line = self._text.count("\n", 0, at)
        column = at - self._text.rfind("\n", 0, at) - 1
        shown = self._lines[line].expandtabs() if line < len(self._lines) else ""
        before = len((self._lines[line][:column] if line < len(self._lines) else "").expandtabs())
        head = f"{self._path}:{line + 1}:{before + 1}: error: {what}\n"
        caret = "^" + "~" * (width - 1)
        return CompileError(f"{head}{line + 1:5} | {shown}\n{'':5} | {' ' * before}{caret}\n")

    def _skip(self, at: int) -> int:
        while self._text[at : at + 1].isspace():
            at += 1
        return at

    def _end(self, start: int) -> int:
        """Return where the array's declaration ends."""
        end = self._text.find(";", start)
        return len(self._text) if end < 0 else end


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
