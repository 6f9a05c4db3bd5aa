"""Placeholders: ``${namespace.NAME}`` and ``${parameter.NAME}``, everywhere in a pack. ``$${`` is a plain ``${``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_PLACEHOLDER = re.compile(r"(\$?)\$\{([^}\n]*)\}")


def names_in(value: Any) -> Iterator[str]:
    """Yield every placeholder's name in a tree of dicts, lists and strings."""
    for text in _texts(value):
        for escape, name in _PLACEHOLDER.findall(text):
            if not escape:
                yield name


def substitute(value: Any, names: Mapping[str, str]) -> Any:
    """Return the tree with each placeholder replaced; every name must be known."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: match[0][1:] if match[1] else names[match[2]], value)
    if isinstance(value, Mapping):
        return {substitute(key, names): substitute(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, names) for item in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
