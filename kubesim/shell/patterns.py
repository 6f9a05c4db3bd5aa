"""Shell patterns: matching, removing, replacing, and braces. Matching is bounded in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import regex

from kubesim.shell.nodes import Text, Word

MATCH_S = 0.015  # longer looking for a match counts as none
MOST_BRACES = 4000
MOST_SPREAD = 60_000
Chars = tuple[tuple[str, bool], ...]
"""Text with whether it is quoted: quoted characters are no pattern."""


def has_magic(chars: Chars) -> bool:
    """Tell whether an unquoted pattern character is there."""
    return any(not quoted and any(char in text for char in "*?[") for text, quoted in chars)


@lru_cache(maxsize=2048)
def translate(chars: Chars, *, lazy: bool = False, extended: bool = False, path: bool = False) -> str:
    """Return the regular expression of a pattern; ``path`` keeps ``*`` and ``?`` from matching a slash."""
    text = [(char, quoted) for piece, quoted in chars for char in piece]
    out: list[str] = []
    closers: list[str] = []
    at = 0
    while at < len(text):
        char, quoted = text[at]
        at += 1
        if quoted:
            out.append(regex.escape(char))
        elif extended and char in "?*+@!" and text[at : at + 1] == [("(", False)]:
            opener, closer = _extended(char)
            out.append(opener)
            closers.append(closer)
            at += 1
        elif closers and char in "|)":
            out.append("|" if char == "|" else closers.pop())
        elif char == "*":
            if not out or not out[-1].startswith(("[^/]*", "[\\s\\S]*")):
                out.append(("[^/]*" if path else "[\\s\\S]*") + ("?" if lazy else ""))
        elif char == "?":
            out.append("[^/]" if path else "[\\s\\S]")
        elif char == "[":
            piece, at = _bracket(text, at)
            out.append(piece)
        elif char == "\\" and at < len(text):
            out.append(regex.escape(text[at][0]))
            at += 1
        else:
            out.append(regex.escape(char))
    return "".join(out) + "".join(reversed(closers))


def _extended(char: str) -> tuple[str, str]:
    if char == "!":
        return "(?:(?!(?:", ")\\Z)[\\s\\S]*)"
    return "(?:", ")" + {"@": "", "?": "?", "*": "*", "+": "+"}[char]


def _bracket(text: list[tuple[str, bool]], at: int) -> tuple[str, int]:
    """Return the class that starts before ``at`` and where it ends; an unclosed bracket is a plain one."""
    start = at
    negated = at < len(text) and text[at][0] in "!^"
    at += negated
    inner = []
    first = True
    while at < len(text) and (text[at][0] != "]" or first or text[at][1]):
        char = text[at][0]
        first = False
        if char == "[" and text[at + 1 : at + 2] == [(":", False)]:
            name = "".join(piece for piece, _ in text[at + 2 : at + 12]).split(":]")[0]
            if name in CLASSES:
                inner.append(CLASSES[name])
                at += len(name) + 4
                continue
        inner.append(char if char == "-" and not text[at][1] else regex.escape(char))
        at += 1
    if at >= len(text):
        return "\\[", start
    body = "".join(inner).replace("--", "\\--")
    return f"[{'^' if negated else ''}{body}]", at + 1


CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": "\\s",
    "blank": " \\t", "punct": "!-/:-@\\[-`{-~", "xdigit": "0-9A-Fa-f", "cntrl": "\\x00-\\x1f\\x7f",
    "print": "\\x20-\\x7e", "graph": "\\x21-\\x7e",
}  # fmt: skip


@lru_cache(maxsize=512)
def _compiled(source: str, flags: int = 0) -> Any:
    try:
        return regex.compile(source, regex.VERSION0 | flags)
    except (regex.error, OverflowError):
        return regex.compile("(?!)")


def matches(chars: Chars, text: str, *, extended: bool = False, path: bool = False) -> bool:
    """Tell whether a whole text matches; False where finding out takes too long."""
    if not has_magic(chars) and not extended and "\\" not in "".join(piece for piece, _ in chars):
        return text == "".join(piece for piece, _ in chars)
    try:
        source = translate(chars, extended=extended, path=path)
        return _compiled(source).fullmatch(text, timeout=MATCH_S) is not None
    except TimeoutError:
        return False


def remove(chars: Chars, text: str, op: str, *, extended: bool = False) -> str:
    """Do ``#``, ``##``, ``%`` and ``%%``."""
    lazy = len(op) == 1
    source = translate(chars, lazy=lazy, extended=extended)
    try:
        if op[0] == "#":
            found = _compiled(source).match(text, timeout=MATCH_S)
            return text[found.end() :] if found else text
        found = _compiled(f"(?:{source})\\Z", regex.REVERSE).search(text, timeout=MATCH_S)
        return text[: found.start()] if found else text
    except TimeoutError:
        return text


def substitute(chars: Chars, text: str, new: str, op: str, *, extended: bool = False) -> str:
    """Do ``/``, ``//``, ``/#`` and ``/%``."""
    source = translate(chars, extended=extended)
    if not source:
        return text
    source = {"/#": f"\\A(?:{source})", "/%": f"(?:{source})\\Z"}.get(op, source)
    try:
        found: str = _compiled(source).sub(lambda match: new, text, count=0 if op == "//" else 1, timeout=MATCH_S)
    except TimeoutError:
        return text
    return found


def braces(word: Word) -> list[Word]:
    """Expand ``{a,b}`` and ``{1..3}``; at most MOST_BRACES words."""
    if not any("{" in _units(part) for part in word):
        return [word]
    done: list[Word] = []
    todo: list[list[Unit]] = [[unit for part in word for unit in _units(part)]]
    while todo and len(done) + len(todo) < MOST_BRACES:
        units = todo.pop()
        found = next((each for at, unit in enumerate(units) if unit == "{" and (each := _choices(units, at))), None)
        if found is None:
            runs = groupby(units, key=lambda unit: isinstance(unit, str))
            done.append(tuple(part for plain, run in runs for part in ([Text("".join(run))] if plain else run)))
        else:
            start, end, choices = found
            todo.extend([*units[:start], *choice, *units[end:]] for choice in reversed(choices))
    return done


Unit = Any
"""A part that is no plain text, or one unquoted character."""


def _units(part: Any) -> Sequence[Unit]:
    return part.value if isinstance(part, Text) and not part.quoted else [part]


def _choices(units: list[Unit], start: int) -> tuple[int, int, list[list[Unit]]] | None:
    """Return where the brace at ``start`` begins and ends, and what may stand in its place."""
    depth, pieces = 0, [list[Unit]()]
    for at in range(start, len(units)):
        unit = units[at]
        depth += (unit == "{") - (unit == "}")
        if depth == 0:
            if len(pieces) == 1:
                spread = _spread("".join(piece if isinstance(piece, str) else "\0" for piece in pieces[0]))
                pieces = [list(text) for text in spread]
            return (start, at + 1, pieces) if pieces else None
        if depth == 1 and unit == ",":
            pieces.append([])
        elif at > start:
            pieces[-1].append(unit)
    return None


def _spread(text: str) -> list[str]:
    """Return the words of ``1..10..2`` or ``a..e``."""
    found = regex.fullmatch(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?", text)
    letters = regex.fullmatch(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?", text)
    match = found or letters
    if not match:
        return []
    first, last = (int(match[1]), int(match[2])) if found else (ord(match[1]), ord(match[2]))
    step = abs(int(match[3] or 1)) or 1
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    numbers = numbers[:MOST_SPREAD]
    if letters:
        return [chr(number) for number in numbers]
    wide = max(len(match[1]), len(match[2])) if _padded(match[1]) or _padded(match[2]) else 0
    return [f"{number:0{wide}d}" for number in numbers]


def _padded(text: str) -> bool:
    return len(text.lstrip("-")) > 1 and text.lstrip("-").startswith("0")
