"""JSON values as jq sees them: kinds, order, indexing, printing."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST_LIST = 200_000
LARGEST, EACH = 16 << 20, 48
"""The most characters that a value may have when it is written out, and what an element counts."""
_ORDER = ("null", "boolean", "number", "string", "array", "object")


class JqError(Exception):
    """An error with a value, which ``try ... catch`` gets."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def oversized(*values: Any) -> bool:
    """Tell whether values are too large to be gone through: parts that are shared count wherever they occur."""
    left, todo = LARGEST, list(values)
    while todo and left >= 0:
        value = todo.pop()
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, list | dict):
            left -= EACH * len(value)
            if left >= 0:
                todo.extend(value if isinstance(value, list) else value.values())
    return left < 0


def limited(*values: Any) -> None:
    """Raise JqError for values that are too large to be gone through."""
    if oversized(*values):
        raise JqError("out of memory")


def kind(value: Any) -> str:
    """Return what ``type`` says."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def truth(value: Any) -> bool:
    """Tell whether a value counts as true."""
    return value is not None and value is not False


def describe(value: Any) -> str:
    """Return a value as error messages show it."""
    text = dumps(value)
    return f"{kind(value)} ({text if len(text) < 12 else text[:10] + '...'})"


def _key(value: Any) -> int:
    name = kind(value)
    return _ORDER.index(name) * 2 + (1 if value is True else 0)


def compare(left: Any, right: Any) -> int:
    """Order values as jq does: null, booleans, numbers, strings, arrays, objects."""
    if _key(left) != _key(right):
        return -1 if _key(left) < _key(right) else 1
    if isinstance(left, list):
        for a, b in zip(left, right, strict=False):
            found = compare(a, b)
            if found:
                return found
        return (len(left) > len(right)) - (len(left) < len(right))
    if isinstance(left, dict):
        found = compare(sorted(left), sorted(right))
        if found:
            return found
        return next((each for key in sorted(left) if (each := compare(left[key], right[key]))), 0)
    if left is None or isinstance(left, bool):
        return 0
    return int(left > right) - int(left < right)


def _bounds(key: dict[str, Any], size: int) -> tuple[int, int]:
    first, last = key.get("start"), key.get("end")
    for each in (first, last):
        if each is not None and kind(each) != "number":
            raise JqError("Start and end indices of an array slice must be numbers")
    start = math.floor(first) if first is not None else 0
    end = math.ceil(last) if last is not None else size
    start, end = (max(each + size, 0) if each < 0 else each for each in (start, end))
    return start, max(end, start)


def get(value: Any, key: Any) -> Any:
    """Return ``value[key]``; raises JqError for the wrong kinds."""
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key)
    if isinstance(value, list) and kind(key) == "number":
        index = math.floor(key)
        return value[index] if -len(value) <= index < len(value) else None
    if isinstance(key, dict) and "start" in key and isinstance(value, list | str | None):
        if value is None:
            return None
        start, end = _bounds(key, len(value))
        return value[start:end]
    if value is None and (isinstance(key, str) or kind(key) == "number" or key is None):
        return None
    if isinstance(value, list) and isinstance(key, list):
        return [at for at in range(len(value)) if value[at : at + len(key)] == key] if key else None
    shown = f'"{key}"' if isinstance(key, str) else kind(key)
    raise JqError(f"Cannot index {kind(value)} with {shown}")


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of the value with ``new`` at a path."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(key, str):
        if value is not None and not isinstance(value, dict):
            raise JqError(f'Cannot index {kind(value)} with "{key}"')
        return {**(value or {}), key: put((value or {}).get(key), rest, new)}
    if isinstance(key, dict):
        items = list(value or [])
        start, end = _bounds(key, len(items))
        found = put(items[start:end], rest, new)
        if not isinstance(found, list):
            raise JqError("A slice of an array can only be assigned another array")
        return items[:start] + found + items[end:]
    if value is not None and not isinstance(value, list) or kind(key) != "number":
        raise JqError(f"Cannot index {kind(value)} with {kind(key)}")
    items, index = list(value or []), math.floor(key)
    if index < 0:
        index += len(items)
        if index < 0:
            raise JqError("Out of bounds negative array index")
    if index > LONGEST_LIST:
        raise JqError("Array index too large")
    items += [None] * (index + 1 - len(items))
    items[index] = put(items[index], rest, new)
    return items


def remove(value: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy of the value without what is at a path."""
    if not path or value is None:
        return None if not path else value
    key, rest = path[0], path[1:]
    if rest:
        below = get(value, key)
        return value if below is None else put(value, (key,), remove(below, rest))
    if isinstance(value, dict) and isinstance(key, str):
        return {name: each for name, each in value.items() if name != key}
    if isinstance(value, list) and kind(key) == "number":
        index = math.floor(key) + (len(value) if key < 0 else 0)
        return [each for at, each in enumerate(value) if at != index]
    if isinstance(value, list) and isinstance(key, dict):
        start, end = _bounds(key, len(value))
        return value[:start] + value[end:]
    raise JqError(f"Cannot delete field at {'object' if isinstance(key, str) else 'array'} index of {kind(value)}")


class _Encoder(json.JSONEncoder):
    """Numbers in jq's manner."""

    def iterencode(self, o: Any, _one_shot: bool = False) -> Any:
        return super().iterencode(_plain(o), _one_shot)

    def encode(self, o: Any) -> str:
        return "".join(self.iterencode(o))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return math.copysign(1.7976931348623157e308, value)
        return int(value) if value == int(value) and abs(value) < 1e17 else value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def dumps(value: Any, *, indent: int | str | None = None, sort: bool = False, ascii_only: bool = False) -> str:
    """Return a value as JSON, compact unless indented. Raises JqError for one that is too large."""
    limited(value)
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        value, cls=_Encoder, indent=indent, sort_keys=sort, ensure_ascii=ascii_only, separators=separators
    ).replace("\x7f", "\\u007f")
