"""``printf`` and ``echo -e``: formats, escapes, widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from kubesim.shell.quoting import ESCAPE, backslashed, unescaped

WIDEST = 65_536
MOST_DIGITS = 512
_DIRECTIVE = re.compile(r"%([-+ #0']*)(\*|\d+)?(?:\.(\*|-?\d*))?(?:hh|h|ll|l|j|z|t|L)?([a-zA-Z%]|\([^)]*\)T)?")
_ESCAPE = re.compile(ESCAPE, re.DOTALL)
_ENDED = re.compile(r"((?:[^\\]|\\[^c])*?)\\c", re.DOTALL)


class FormatError(Exception):
    """A format that printf refuses."""


def escapes(text: str, *, echo: bool = False, hexadecimal: bool = True) -> tuple[str, bool]:
    """Replace backslash sequences; True after ``\\c``, which ends the output."""
    ended = _ENDED.match(text)

    def one(match: re.Match[str]) -> str:
        foreign = match["octal"] and echo and match[0][1] != "0" or match["hex"] and not hexadecimal
        return match[0] if foreign else unescaped(match)

    return _ESCAPE.sub(one, ended[1] if ended else text), ended is not None


class Formatter:
    """One run of printf; ``complain`` gets the kind of a problem and the word."""

    def __init__(self, format_: str, args: list[str], *, quoting: bool, now: Callable[[], float]) -> None:
        self.format = format_
        self.args = args
        self.at = 0
        self.problems: list[str] = []
        self.quoting = quoting
        self.now = now
        self.stopped = False

    def text(self, limit: int = 1 << 20) -> str:
        """Return what is printed: the format again and again until the arguments are used up."""
        out: list[str] = []
        size = 0
        while True:
            before = self.at
            piece = self.once()
            out.append(piece)
            size += len(piece)
            if self.stopped or self.at >= len(self.args) or self.at == before or size > limit:
                return "".join(out)

    def once(self) -> str:
        """Return what is printed for the format once."""
        out: list[str] = []
        at = 0
        text = self.format
        while at < len(text) and not self.stopped:
            percent = text.find("%", at)
            end = len(text) if percent < 0 else percent
            plain, self.stopped = escapes(text[at:end], hexadecimal=self.quoting)
            out.append(plain)
            if percent < 0 or self.stopped:
                break
            match = _DIRECTIVE.match(text, percent)
            if match is None or match[4] is None:
                raise FormatError(text[percent : percent + 2])
            at = match.end()
            out.append("%" if match[4] == "%" else self._directive(match))
        return "".join(out)

    def _next(self) -> str | None:
        if self.at < len(self.args):
            self.at += 1
            return self.args[self.at - 1]
        return None

    def _size(self, text: str | None) -> int | None:
        if text is None:
            return None
        number = self._integer(self._next()) if text == "*" else int(text or 0) if len(text) < 9 else WIDEST
        return max(-WIDEST, min(number, WIDEST))

    def _directive(self, match: re.Match[str]) -> str:
        flags, kind = match[1].replace("'", ""), match[4]
        width, precision = self._size(match[2]) or 0, self._size(match[3])
        if kind[0] == "(":
            return self._time(kind[1:-2])
        word = self._next()
        value: str | float
        if kind in "csbq":
            value, kind = self._string(kind, word or ""), "s"
        elif kind in "diouxX":
            value = self._integer(word)
            value += 1 << 64 if kind in "ouxX" and value < 0 else 0
        elif kind in "eEfFgG":
            value, precision = self._float(word), None if precision is None else min(precision, MOST_DIGITS)
        else:
            raise FormatError(match[0])
        if width < 0:
            flags, width = flags + "-", -width
        if precision is None or precision < 0:
            return f"%{flags}{width or ''}{kind}" % value
        flags = flags.replace("0", "") if kind in "diouxX" else flags
        return f"%{flags}{width or ''}.{precision}{kind}" % value

    def _string(self, kind: str, word: str) -> str:
        if kind == "q" and not self.quoting:
            raise FormatError("%q")
        if kind == "b":
            word, self.stopped = escapes(word, echo=False)
        return backslashed(word) if kind == "q" else word[:1] if kind == "c" else word

    def _time(self, form: str) -> str:
        word = self._next()
        moment = self.now() if word in (None, "-1", "-2") else float(self._integer(word))
        return datetime.fromtimestamp(moment, UTC).strftime(form or "%H:%M:%S")

    def _integer(self, word: str | None) -> int:
        if not word:
            return 0
        if word[0] in "'\"":
            return ord(word[1]) if len(word) > 1 else 0
        match = re.match(r"\s*([+-]?)(0[xX][0-9A-Fa-f]+|\d+)", word)
        if match is None or match.end() < len(word):
            self.problems.append(word)
        if match is None or len(match[2]) > 40:
            return 0
        digits = match[2]
        octal = digits.startswith("0") and digits.isdecimal() and len(digits) > 1
        base = 16 if digits[:2].lower() == "0x" else 8 if octal and set(digits) <= set("01234567") else 10
        return int(digits, base) * (-1 if match[1] == "-" else 1)

    def _float(self, word: str | None) -> float:
        try:
            return float(word or 0)
        except ValueError:
            self.problems.append(word or "")
            return 0.0
