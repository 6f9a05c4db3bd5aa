"""Dotted paths into objects, and the conditions (``if``) that tables state of what lies there.

A path is ``spec.type``, ``ports[].name`` of every entry, or ``conditions[type=Ready].status``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kubesim.errors import Obj

Step = tuple[str, bool, str, str]
WORDS: dict[str, Callable[[Any], object]] = {
    "given": lambda value: value is not None,
    "missing": lambda value: value is None,
    "filled": bool,
    "empty": lambda value: not value,
    "single": lambda value: len(value or ()) == 1,
    "blank": lambda value: not (value or "").strip(),
    "worded": lambda value: (value or "").strip(),
}
"""The conditions that are one word, of a field's value."""


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


def condition(path: str, wanted: Any) -> Callable[[Obj], bool]:
    """Return what tells whether a condition holds of an object; of several values, one must be as it says."""
    negated = isinstance(wanted, dict) and ("not" in wanted or "unlike" in wanted)
    test = _test(wanted)

    if "[" in path:
        return lambda obj: any(map(test, each(obj, path))) is not negated
    if "." in path:
        return lambda obj: bool(test(dig(obj, path))) is not negated
    return lambda obj: bool(test(obj.get(path))) is not negated


def _test(wanted: Any) -> Callable[[Any], object]:
    if isinstance(wanted, str) and wanted in WORDS:
        return WORDS[wanted]
    if not isinstance(wanted, dict):
        choices = wanted if isinstance(wanted, list) else [wanted]
        return lambda value: value in choices
    (word, argument), *_ = wanted.items()
    match word:
        case "like" | "unlike":
            pattern = re.compile(argument)
            return lambda value: pattern.fullmatch(value or "")
        case "all":
            return lambda value: set(argument) <= set(value or ())
        case "above":
            return lambda value: (value or 0) > argument
        case _:
            return _test(argument)
