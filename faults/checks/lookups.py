"""Look-ups in objects that may be half-made or somebody's trap: what is missing is a default, never an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def dig(obj: Any, path: str, default: Any) -> Any:
    """Return the value at a dotted path; digits index into lists."""
    for part in str(path).split("."):
        if isinstance(obj, Mapping) and part in obj:
            obj = obj[part]
        elif isinstance(obj, list) and part.isdigit() and int(part) < len(obj):
            obj = obj[int(part)]
        else:
            return default
    return default if obj is None else obj


def rows(obj: Any, path: str) -> list[Any]:
    """Return the list at a path, empty where there is none."""
    value = dig(obj, path, [])
    return value if isinstance(value, list) else []


def texts(obj: Any, path: str) -> dict[str, str]:
    """Return the mapping of texts at a path, such as labels; empty where there is none."""
    value = dig(obj, path, {})
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, Mapping) else {}
