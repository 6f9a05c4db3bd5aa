"""YAML as kubeconfigs are written in it, for pods and machines that have Python and nothing else.

Mappings, lists, plain and quoted words, texts after ``|`` and ``>``, and JSON; anchors and tags are refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(
    r"""^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#"'{}\[\],&*!|>%@`-][^#]*?|-[^\s#][^#]*?):(?:\s+(.*))?$"""
)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_BLOCKS = ("|", "|-", "|+", ">", ">-", ">+")


class YamlError(ValueError):
    """A text that is no YAML, or has more of it than kubeconfigs need."""


def parse(text: str) -> Any:
    """Return what a text says."""
    if text.lstrip().startswith("{"):
        return json.loads(text)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line not in ("---", "...")]
    value, at = _value(lines, _next(lines, 0), -1)
    if at < len(lines):
        raise YamlError(f"This line was not understood: {lines[at].strip()[:40]}")
    return value


def _next(lines: list[str], at: int) -> int:
    """Return where the next line is that says something."""
    while at < len(lines) and (not lines[at].strip() or lines[at].lstrip().startswith("#")):
        at += 1
    return at


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _value(lines: list[str], at: int, above: int) -> tuple[Any, int]:
    """Read the value that begins in a line, and stands deeper than ``above``; return it and where it ends."""
    if at >= len(lines) or _depth(lines[at]) <= above:
        return None, at
    if _is_item(lines[at]):
        return _list(lines, at, _depth(lines[at]))
    return _mapping(lines, at, _depth(lines[at]))


def _is_item(line: str) -> bool:
    return line.lstrip(" ") == "-" or line.lstrip(" ").startswith("- ")


def _list(lines: list[str], at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while at < len(lines) and _depth(lines[at]) == depth and _is_item(lines[at]):
        rest = lines[at].lstrip(" ")[1:]
        if not rest.strip():
            value, at = _value(lines, _next(lines, at + 1), depth)
        elif _KEY.match(rest.strip()) or _is_item(rest.strip()):
            lines[at] = " " * (depth + 1) + rest  # what stands in an item stands two columns deeper, or more
            value, at = _value(lines, at, depth)
        else:
            value, at = _after(lines, at, rest.strip(), depth)
        found.append(value)
    return found, at


def _mapping(lines: list[str], at: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and _depth(lines[at]) == depth and not _is_item(lines[at]):
        match = _KEY.match(lines[at].strip())
        if match is None:
            raise YamlError(f"This line was not understood: {lines[at].strip()[:40]}")
        rest, here = (match[2] or "").strip(), at
        if rest and not rest.startswith("#"):
            value, at = _after(lines, here, rest, depth)
        else:
            below = _next(lines, here + 1)
            is_list = below < len(lines) and _depth(lines[below]) == depth and _is_item(lines[below])
            value, at = _list(lines, below, depth) if is_list else _value(lines, below, depth)
        found[str(_scalar(match[1]))] = value
    return found, at


def _after(lines: list[str], at: int, rest: str, depth: int) -> tuple[Any, int]:
    """Read a value that stands in its own line, or a text below it."""
    if rest in _BLOCKS:
        return _text(lines, at + 1, rest, depth)
    return _scalar(rest), _next(lines, at + 1)


def _text(lines: list[str], at: int, mark: str, depth: int) -> tuple[str, int]:
    end = at
    while end < len(lines) and (not lines[end] or _depth(lines[end]) > depth):
        end += 1
    own = lines[at:end]
    indent = min((_depth(line) for line in own if line), default=0)
    text = ("\n" if mark[0] == "|" else " ").join(line[indent:] for line in own).rstrip()
    return text + ("" if mark.endswith("-") else "\n"), _next(lines, end)


def _scalar(text: str) -> Any:
    if text[:1] == '"' or text[:1] in ("{", "["):
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except ValueError as exc:
            raise YamlError(f"This was not understood: {text[:40]}") from exc
    if text[:1] == "'":
        return text[1 : text.rindex("'")].replace("''", "'")
    if text[:1] in ("&", "*", "!", "%", "@", "`"):
        raise YamlError(f"This was not understood: {text[:40]}")
    plain = re.split(r"\s+#", text)[0].strip()
    return _WORDS.get(plain, int(plain) if re.fullmatch(r"-?[0-9]{1,18}", plain) else plain)
