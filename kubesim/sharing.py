"""Copies that have in common what is alike: a spec in all versions of an object, roles in all clusters of a process.

Nothing that the store holds is ever changed, so equal parts may be one. Those that were seen last are remembered by
their JSON; what has been forgotten is only kept twice. What a parent has seen stays for good in all that it forks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from sys import intern
from typing import Any

import orjson

from kubesim.errors import Obj

MOST_BYTES = 1024 * 1024
PLAIN = frozenset((str, int, bool, type(None)))
SMALL = 128
"""What is shorter as JSON is shared as a whole or not at all."""
_seen: OrderedDict[bytes, Any] = OrderedDict()
_kept: dict[str, Any] = {}
"""By texts, since to find one writes nothing, not even its count of references: a fork goes on sharing it."""
_size = 0


def copy(obj: Obj) -> Obj:
    """Return a copy of an object."""
    return {name: value if type(value) in PLAIN else _COPIES.get(name, _part)(value) for name, value in obj.items()}


def keep() -> None:
    """Forget nothing of what was seen until now: what forks have in common with their parent costs no memory."""
    global _size
    _kept.update((raw.decode(), found) for raw, found in _seen.items())
    _seen.clear()
    _size = 0


def _copies(values: Any) -> Any:
    """Return copies of the entries of a list."""
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        return _part(values)
    return [copy(value) for value in values]


def _part(value: Any) -> Any:
    """Return a value, or one that was seen before and is equal."""
    if type(value) in PLAIN:
        return value
    raw = orjson.dumps(value)
    if _kept and (found := _kept.get(raw.decode())) is not None:
        return found
    found = _seen.get(raw)
    if found is not None:
        _seen.move_to_end(raw)
        return found
    large = len(raw) >= SMALL and isinstance(value, dict | list)
    found = _apart(value) if large else orjson.loads(raw)
    _seen[bytes(memoryview(raw))] = found
    _make_room(len(raw))
    return found


def _apart(value: Any) -> Any:
    """Return a copy of a large value, in which what is equal to something that was seen before is shared."""
    if isinstance(value, dict):
        return {intern(name): _part(inner) for name, inner in value.items()}
    return [_part(inner) for inner in value]


def _make_room(size: int) -> None:
    """Forget what was seen longest ago."""
    global _size
    _size += size
    while _size > MOST_BYTES:
        oldest, _ = _seen.popitem(last=False)
        _size -= len(oldest)


_COPIES: dict[str, Callable[[Any], Any]] = {
    "metadata": lambda value: copy(value) if isinstance(value, dict) else _part(value),
    "managedFields": _copies,
}
