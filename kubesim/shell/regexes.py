"""POSIX regular expressions, matched by the ``regex`` package, which can be told to give up after a while."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import regex

from kubesim.shell.patterns import CLASSES

MATCH_S = 0.02
LONGEST = 20_000

ESCAPES = {
    "<": "\\b(?=\\w)", ">": "\\b(?<=\\w)", "`": "\\A", "'": "\\Z", "n": "\\n", "t": "\\t",
    **{char: f"\\{char}" for char in "wWsSbB"}, **{digit: f"(?:\\{digit})" for digit in "123456789"},
}  # fmt: skip
"""Letters that GNU's regular expressions know behind a backslash."""


class RegexError(Exception):
    """A pattern that is none, in the C library's words; or one that takes too long."""


class _Reader:
    """Translates a basic or extended expression."""

    def __init__(self, pattern: str, *, extended: bool) -> None:
        self.pattern = pattern
        self.extended = extended
        self.at = 0
        self.out: list[str] = []
        self.open = 0
        self.start = True  # nothing to repeat yet

    def read(self) -> str:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 1
            if char == "\\":
                self._escape()
            elif char == "[":
                self._put(self._bracket())
            elif char == ".":
                self._put("[\\s\\S]")
            elif char == "*":
                self._repeat("*")
            elif self.extended and char in "+?":
                self._repeat(char)
            elif self.extended and char in "(|)":
                self._group(char)
            elif self.extended and char == "{":
                self._interval("}")
            elif char == "^":
                self._caret()
            elif char == "$":
                self._dollar()
            else:
                self._put(regex.escape(char))
        if self.open:
            raise RegexError("Unmatched ( or \\(")
        return "".join(self.out)

    def _put(self, piece: str) -> None:
        self.out.append(piece)
        self.start = False

    def _repeat(self, char: str) -> None:
        if self.start:
            if self.extended and char != "*":
                raise RegexError("Invalid preceding regular expression")
            self._put(regex.escape(char))
        elif self.out and self.out[-1] in ("*", "+", "?") or self.out[-1].startswith("{") and len(self.out[-1]) > 1:
            self.out[-1] = "*" if "*" in (char, self.out[-1]) or char != self.out[-1] else char
        else:
            self.out.append(char)

    def _caret(self) -> None:
        if self.start or self.extended:
            self.out.append("^")
        else:
            self._put("\\^")

    def _dollar(self) -> None:
        rest = self.pattern[self.at :]
        if self.extended or not rest or rest.startswith(("\\)", "\\|")):
            self.out.append("$")
            self.start = False
        else:
            self._put("\\$")

    def _group(self, char: str) -> None:
        if char == "(":
            self.open += 1
            self.out.append("(")
            self.start = True
        elif char == "|":
            self.out.append("|")
            self.start = True
        elif self.open:
            self.open -= 1
            self._put(")")
        elif self.extended:
            self._put("\\)")
        else:
            raise RegexError("Unmatched ) or \\)")

    def _escape(self) -> None:
        if self.at >= len(self.pattern):
            raise RegexError("Trailing backslash")
        char = self.pattern[self.at]
        self.at += 1
        if not self.extended and char in "(|)":
            self._group(char)
        elif not self.extended and char == "{":
            self._interval("\\}")
        elif not self.extended and char in "+?":
            self._repeat(char)
        else:
            self._put(ESCAPES.get(char) or regex.escape(char))

    def _interval(self, end: str) -> None:
        match = re.compile(r"(\d*)(,?)(\d*)" + re.escape(end)).match(self.pattern, self.at)
        if not match or not match[1] and not match[2] or self.start:
            if not self.extended:
                raise RegexError(
                    "Invalid content of \\{\\}" if not self.start else "Invalid preceding regular expression"
                )
            self._put("\\{")
            return
        if max(int(match[1] or 0), int(match[3] or 0)) > 32767:
            raise RegexError("Regular expression too big")
        self.at = match.end()
        self.out.append(f"{{{match[1] or 0}{match[2]}{match[3]}}}")

    def _bracket(self) -> str:
        text, at = self.pattern, self.at
        negated = text[at : at + 1] == "^"
        at += negated
        inner: list[str] = []
        first = True
        while at < len(text) and (text[at] != "]" or first):
            first = False
            special = re.compile(r"\[([:.=])(.*?)\1\]").match(text, at)
            if special:
                if special[1] == ":" and special[2] not in CLASSES:
                    raise RegexError("Invalid character class name")
                inner.append(CLASSES[special[2]] if special[1] == ":" else regex.escape(special[2]))
                at = special.end()
            elif text[at + 1 : at + 2] == "-" and text[at + 2 : at + 3] not in ("]", ""):
                if text[at] > text[at + 2]:
                    raise RegexError("Invalid range end")
                inner.append(f"{_literal(text[at])}-{_literal(text[at + 2])}")
                at += 3
            else:
                inner.append(_literal(text[at]))
                at += 1
        if at >= len(text):
            raise RegexError("Unmatched [, [^, [:, [., or [=")
        self.at = at + 1
        return f"[{'^' if negated else ''}{''.join(inner)}]"


def _literal(char: str) -> str:
    return "\\" + char if not char.isalnum() and char.isascii() else char


@lru_cache(maxsize=512)
def compile_posix(pattern: str, *, extended: bool, ignore_case: bool = False, multiline: bool = False) -> Any:
    """Return a compiled POSIX expression; raises RegexError."""
    if len(pattern) > LONGEST:
        raise RegexError("Regular expression too big")
    source = _Reader(pattern, extended=extended).read()
    if not multiline:
        source = _anchored(source)
    flags = regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0) | (regex.MULTILINE if multiline else 0)
    if "|" in source:
        flags |= regex.POSIX
    return _compile(source, flags)


def _anchored(source: str) -> str:
    """Make ``^`` and ``$`` mean the ends of the text, whatever lines are in it."""
    out, inside, at = [], False, 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            out.append(source[at : at + 2])
            at += 2
            continue
        if char == "[":
            inside = True
        elif char == "]":
            inside = False
        out.append({"^": "\\A", "$": "\\Z"}.get(char, char) if not inside else char)
        at += 1
    return "".join(out)


@lru_cache(maxsize=512)
def compile_perl(pattern: str, *, ignore_case: bool = False) -> Any:
    """Return a compiled Perl-like expression; raises RegexError."""
    if len(pattern) > LONGEST:
        raise RegexError("regular expression is too large")
    return _compile(pattern, regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0))


def _compile(source: str, flags: int) -> Any:
    try:
        return regex.compile(source, flags)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        message = str(error)
        if "unknown group" in message or "invalid group" in message:
            raise RegexError("Invalid back reference") from error
        raise RegexError("Invalid regular expression") from error


def search(compiled: Any, text: str, at: int = 0) -> Any:
    """Search from a position; raises RegexError where that takes too long."""
    try:
        return compiled.search(text, at, timeout=MATCH_S)
    except TimeoutError as error:
        raise RegexError("memory exhausted") from error
