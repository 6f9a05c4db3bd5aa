"""Text written so that a shell reads it back, and escape sequences."""

from __future__ import annotations

import re

_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
ESCAPE = (
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|0?(?P<octal>[0-7]{1,3})|u(?P<short>[0-9A-Fa-f]{1,4})"
    r"|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<char>.))"
)
"""A sequence as printf has it."""
_ANSI = re.compile(r"\\c(?P<control>.)|" + ESCAPE.replace("0?", ""), re.DOTALL)


def unescaped(match: re.Match[str]) -> str:
    """Return what a sequence stands for."""
    if match["hex"] or match["octal"]:
        return byte((int(match["hex"], 16) if match["hex"] else int(match["octal"], 8)) & 255)
    if match["short"] or match["long"]:
        return character(int(match["short"] or match["long"], 16))
    return SIMPLE.get(match["char"], match["char"] if match["char"] in "\\'\"?" else match[0])


def ansi(text: str) -> str:
    """Return what ``$'text'`` stands for."""
    return _ANSI.sub(lambda match: chr(ord(match["control"]) & 31) if match["control"] else unescaped(match), text)


def byte(number: int) -> str:
    """Return a byte as texts keep it."""
    return chr(number) if number < 128 else bytes([number]).decode("utf-8", "surrogateescape")


def character(number: int) -> str:
    """Return a character; half of a pair, which no text can have, as the bytes that a shell makes of it."""
    found = chr(min(number, 0x10FFFF))
    if 0xD800 <= number < 0xE000:
        return found.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    return found


def quote(text: str, *, always: bool = False) -> str:
    """Return text in single quotes where it needs them, or always."""
    if _SAFE.fullmatch(text) and not always:
        return text
    if any(ord(char) < 32 for char in text):
        named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\E", "'": "\\'", "\\": "\\\\"}
        body = "".join(named.get(char) or (f"\\{ord(char):03o}" if ord(char) < 32 else char) for char in text)
        return f"$'{body}'"
    return "'" + text.replace("'", "'\\''") + "'"


def backslashed(text: str) -> str:
    """Return text as ``printf %q`` writes it."""
    if not text:
        return "''"
    if any(ord(char) < 32 for char in text):
        return quote(text)
    return re.sub(r"([^A-Za-z0-9_@%+=:./-])", r"\\\1", text)
