"""Dotted paths into objects: ``spec.type``, ``ports[].name`` of every entry, ``conditions[type=Ready].status``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

Step = tuple[str, bool, str, str]


def dig(obj: Any, path: str) -> Any:
    """Return what lies at a path that goes through no list, or None."""
    for key in _keys(path):
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
    """Yield all that lies at a path, None for what an entry of a list does not have."""
    return _each(obj, _steps(path))


def _each(obj: Any, steps: list[Step]) -> Iterator[Any]:
    if not steps:
        yield obj
        return
    (key, many, field, wanted), *rest = steps
    found = obj.get(key) if isinstance(obj, dict) else None
    if not many:
        yield from _each(found, rest)
        return
    for entry in found or ():
        if not field or entry.get(field) == wanted:
            yield from _each(entry, rest)


@cache
def _steps(path: str) -> list[Step]:
    """Return (key, whether it is a list, field and value that its entries must have); there are few paths."""
    steps = []
    for word in path.split("."):
        key, bracket, condition = word.removesuffix("]").partition("[")
        field, _, wanted = condition.partition("=")
        steps.append((key, bool(bracket), field, wanted))
    return steps
