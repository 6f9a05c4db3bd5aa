"""``printf`` and ``echo -e``: formats, escapes, widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from kubesim.shell.quoting import backslashed, byte, character

WIDEST = 65_536
_DIRECTIVE = re.compile(r"%([-+ #0']*)(\*|\d+)?(?:\.(\*|-?\d*))?(?:hh|h|ll|l|j|z|t|L)?([a-zA-Z%]|\([^)]*\)T)?")
_SIMPLE = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|0?([0-7]{1,3})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)


class FormatError(Exception):
    """A format that printf refuses."""


def escapes(text: str, *, echo: bool = False, hexadecimal: bool = True) -> tuple[str, bool]:
    """Replace backslash sequences; True after ``\\c``, which ends the output."""
    out: list[str] = []
    at = 0
    while at < len(text):
        slash = text.find("\\", at)
        if slash < 0 or slash == len(text) - 1:
            break
        out.append(text[at:slash])
        match = _ESCAPE.match(text, slash)
        if match is None:
            break
        at = match.end()
        if match[5] == "c":
            return "".join(out), True
        if match[2] and echo and text[slash + 1] != "0" or match[1] and not hexadecimal:
            out.append(match[0])
        else:
            out.append(_escape(match))
    return "".join(out) + text[at:], False


def _escape(match: re.Match[str]) -> str:
    if match[1]:
        return byte(int(match[1], 16))
    if match[2]:
        return byte(int(match[2], 8) & 255)
    if match[3] or match[4]:
        return character(int(match[3] or match[4], 16))
    return _SIMPLE.get(match[5], match[0]) if match[5] not in "\"'" else match[5]


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
        flags, kind = match[1], match[4]
        width = self._size(match[2]) or 0
        precision = self._size(match[3])
        if width < 0:
            flags, width = flags + "-", -width
        if kind[0] == "(":
            return self._time(kind[1:-2])
        word = self._next()
        if kind == "c":
            text = (word or "")[:1]
        elif kind in "sbq":
            text = self._string(kind, word or "", precision)
        elif kind in "diouxX":
            return self._number(kind, word, flags, width, precision)
        elif kind in "eEfFgG":
            return self._float(kind, word, flags, width, precision)
        else:
            raise FormatError(match[0])
        return text.ljust(width) if "-" in flags else text.rjust(width)

    def _string(self, kind: str, word: str, precision: int | None) -> str:
        if kind == "q" and not self.quoting:
            raise FormatError("%q")
        if kind == "q":
            return backslashed(word)
        if kind == "b":
            word, self.stopped = escapes(word, echo=False)
        return word if precision is None or precision < 0 else word[:precision]

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

    def _number(self, kind: str, word: str | None, flags: str, width: int, precision: int | None) -> str:
        value = self._integer(word)
        if kind in "ouxX" and value < 0:
            value += 1 << 64
        digits = format(abs(value), {"o": "o", "x": "x", "X": "X"}.get(kind, "d"))
        if precision is not None and precision >= 0:
            digits = digits.rjust(precision, "0")
            flags = flags.replace("0", "")
        if "#" in flags and value:
            digits = {"o": "0", "x": "0x", "X": "0X"}.get(kind, "") + digits
        sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
        return pad(sign, digits, flags, width)

    def _float(self, kind: str, word: str | None, flags: str, width: int, precision: int | None) -> str:
        try:
            value = float(word or 0)
        except ValueError:
            self.problems.append(word or "")
            value = 0.0
        body = format(abs(value), f".{6 if precision is None or precision < 0 else min(precision, 512)}{kind}")
        sign = "-" if value < 0 else "+" if "+" in flags else ""
        return pad(sign, body, flags, width)


def pad(sign: str, body: str, flags: str, width: int) -> str:
    """Bring a number to its width."""
    if "-" in flags:
        return (sign + body).ljust(width)
    if "0" in flags:
        return sign + body.rjust(width - len(sign), "0")
    return (sign + body).rjust(width)
