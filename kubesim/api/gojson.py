"""What Go's JSON decoder says of a text that it cannot read."""

from __future__ import annotations

import json
import os.path
import re
from typing import Any

import orjson

CONTEXT = "looking for beginning of value"
CONTEXTS = {
    "Extra data": "after top-level value",
    "Expecting property name": "looking for beginning of object key string",
    "Illegal trailing comma": "looking for beginning of object key string",
    "Invalid control character": "in string literal",
    "Expecting ':'": "after object key",
}
"""How Go's JSON decoder says where it was, by the words of Python's."""
MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
LITERALS = ("null", "true", "false")
_GO_TYPES = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def object_error(text: bytes) -> str:
    """Return why a text is no JSON object; nothing where it is one, or null."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return complaint(text.decode("utf-8", "surrogateescape"))
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {_GO_TYPES[type(value)]} into Go value of type map[string]interface {{}}"


def complaint(text: str) -> str:
    """Return what Go's JSON decoder says of a text that it cannot read."""
    try:
        json.loads(text, parse_constant=_refused)
    except json.JSONDecodeError as found:
        rest = text[found.pos :].lstrip(" \n\r\t") if "control" not in found.msg else text[found.pos :]
        if not rest or "Unterminated" in found.msg:
            return "unexpected end of JSON input"
        wanted = LITERALS if found.msg == "Expecting value" else ()
        if literal := next((word for word in wanted if rest.startswith(word[0])), ""):
            return _in_literal(rest, literal)
        context = next((text for begin, text in CONTEXTS.items() if found.msg.startswith(begin)), CONTEXT)
        if found.msg.startswith("Expecting ','"):
            context = f"after {_open_at(text[: found.pos])}"
        return f"invalid character {rune(rest[0])} {context}"
    except RecursionError:
        deep = "[" if "[[" in text else "{"
        return f"invalid character '{deep}' exceeded max depth"
    except ValueError as constant:
        return f"invalid character {rune(str(constant)[0])} {CONTEXT}"
    return "unexpected end of JSON input"


def _open_at(text: str) -> str:
    """Return what is open at the end of a text, in Go's words for one of its entries."""
    open_marks: list[str] = []
    for mark in MARKS.findall(text):
        if mark in "[{":
            open_marks.append(mark)
        elif mark in "]}":
            open_marks.pop()
    return "array element" if open_marks[-1] == "[" else "object key:value pair"


def _in_literal(text: str, literal: str) -> str:
    """Return what Go's decoder says of a text that begins as ``null``, ``true`` or ``false`` does, and is none."""
    at = len(os.path.commonprefix([text, literal]))
    if at == len(text):
        return "unexpected end of JSON input"
    return f"invalid character {rune(text[at])} in literal {literal} (expecting {rune(literal[at])})"


def _refused(constant: str) -> Any:
    """Refuse what Python takes for a number and JSON does not."""
    raise ValueError(constant)


def rune(mark: str) -> str:
    """Return a character as Go quotes it; it looks at bytes."""
    mark = mark if mark.isascii() else mark.encode("utf-8", "surrogateescape")[:1].decode("latin-1")
    return "'\\''" if mark == "'" else repr(mark)
