"""Words of a command that assign: ``name=value``, ``name[index]+=value``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kubesim.shell.nodes import (
    Text,
    Word,
)

_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=", re.DOTALL)
Assignment = tuple[str, Word | None, bool, Word]


@lru_cache(maxsize=4096)
def assignment(word: Word) -> Assignment | None:
    """Return a word's name, index, whether it appends, and its value, if it is an assignment."""
    if not word or not isinstance(word[0], Text) or word[0].quoted:
        return None
    match = _ASSIGN.match(word[0].value)
    if match:
        rest = word[0].value[match.end() :]
        value = (Text(rest), *word[1:]) if rest else word[1:]
        index = (Text(match[2], True),) if match[2] is not None else None
        return match[1], index, bool(match[3]), value
    return _indexed(word, re.match(r"([A-Za-z_]\w*)\[(.*)", word[0].value, re.DOTALL))


def _indexed(word: Word, match: re.Match[str] | None) -> Assignment | None:
    """Read ``a[$i]=x``, whose index has parts."""
    if not match:
        return None
    index: list[Any] = [Text(match[2], True)] if match[2] else []
    for at, part in enumerate(word[1:], 1):
        if isinstance(part, Text) and not part.quoted:
            end = re.match(r"(.*?)\](\+?)=", part.value, re.DOTALL)
            if end:
                if end[1]:
                    index.append(Text(end[1], True))
                rest = part.value[end.end() :]
                value = (Text(rest), *word[at + 1 :]) if rest else word[at + 1 :]
                return match[1], tuple(index), bool(end[2]), value
        index.append(part)
    return None


@lru_cache(maxsize=4096)
def leading(words: tuple[Word, ...], full: bool) -> tuple[list[Assignment], tuple[Word, ...]]:
    """Part a command's assignments from its words; only ``full`` shells append and have arrays."""
    assigns: list[Assignment] = []
    for index, word in enumerate(words):
        found = assignment(word)
        if not found or not full and (found[1] or found[2]):
            return assigns, words[index:]
        assigns.append(found)
    return assigns, ()


def declares(word: Word) -> bool:
    first = word[0] if word else None
    return isinstance(first, Text) and first.value in ("export", "readonly", "local", "declare", "typeset", "alias")
