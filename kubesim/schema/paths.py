"""Dotted paths into objects: ``spec.type``, ``ports[].name`` of every entry, ``conditions[type=Ready].status``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

Step = tuple[str, bool, str, str]


def dig(obj: Any, path: str | tuple[str, ...]) -> Any:
    """Return what lies at a path (of names, or with dots) that goes through no list, or None."""
    for key in _keys(path) if isinstance(path, str) else path:
        if type(obj) is not dict and not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


@cache
def _keys(path: str) -> list[str]:
    return path.split(".")


def first(obj: Any, path: str) -> Any:
    """Return the first of what lies at a path, or None."""
    return next(each(obj, path), None) if "[" in path else dig(obj, path)


def each(obj: Any, path: str) -> Iterator[Any]:
    """Yield all that lies at a path, None for what an object on the way does not have."""
    return (value for _, value in walk(obj, path))


def is_true(obj: Any, condition: str) -> bool:
    """Tell whether a condition of an object's status is True: ``Ready``, ``Established``."""
    conditions = dig(obj, "status.conditions") or ()
    return any(found["type"] == condition and found["status"] == "True" for found in conditions)


def walk(obj: Any, path: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (full path, value) of all that lies at a path, wherever the object above its last word is there."""
    return _walk(obj, _steps(path), prefix)


def _walk(obj: Any, steps: tuple[Step, ...], prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(obj, dict):
        return
    key, many, field, wanted = steps[0]
    value, where, rest = obj.get(key), f"{prefix}.{key}" if prefix else key, steps[1:]
    found = [(where, value)]
    if many:
        entries = enumerate(value or ())
        found = [(f"{where}[{at}]", entry) for at, entry in entries if not field or entry.get(field) == wanted]
    if not rest:
        yield from found
        return
    for inner, entry in found:
        yield from _walk(entry, rest, inner)


@cache
def _steps(path: str) -> tuple[Step, ...]:
    """Return (key, whether it is a list, field and value that its entries must have); there are few paths."""
    steps = []
    for word in path.split("."):
        key, bracket, condition = word.removesuffix("]").partition("[")
        field, _, wanted = condition.partition("=")
        steps.append((key, bool(bracket), field, wanted))
    return tuple(steps)
