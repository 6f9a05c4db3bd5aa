"""Cases of bad input, grown: what a case has once, it has many times over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kubesim.tests.contract.bad_input import Case

BYTES = 16_000
"""The size of a small body. What costs next to nothing at this size costs nothing worth measuring."""
OF_QUERY = 600  # a request line takes 8,000 characters
Grow = Callable[[int], bytes]


@dataclass(frozen=True)
class Growth:
    """One case, and how it is made of any size."""

    case: Case
    way: str
    at: Callable[[int], Case]

    @property
    def name(self) -> str:
        """Return what it is called in a report."""
        return f"{self.case.name[:60]}, {self.way}"


def growths(case: Case) -> Iterator[Growth]:
    """Return every way in which a case can grow."""
    if case.body:
        for way, grow in _of_body(case.body):
            start = _count_for(grow)
            yield Growth(case, way, lambda factor, grow=grow, start=start: replace(case, body=grow(start * factor)))
    elif case.headers:
        yield Growth(case, "headers repeated", lambda factor: replace(case, headers=_longer(case.headers, factor)))
    elif case.method == "GET":
        yield Growth(case, "query repeated", lambda factor: replace(case, path=_repeated(case.path, factor)))


def _count_for(grow: Grow) -> int:
    """Return how many times over makes a body of the small size."""
    one, more = len(grow(1)), len(grow(11))
    return max(1, BYTES * 10 // max(more - one, 1))


def _of_body(body: bytes) -> Iterator[tuple[str, Grow]]:
    yield "repeated", lambda count: body * count
    yield "padded", lambda count: b" " * count + body
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        yield "as many values", lambda count: b'{"data":[' + b",".join([body] * count) + b"]}"
        return
    yield "under many keys", lambda count: _dumped({"data": {f"k{number}": value for number in range(count)}})
    for way, grow in {"longer texts": _texts, "longer lists": _lists, "more keys": _keys}.items():
        if grow(value, 2) != value:
            yield way, lambda count, grow=grow: _dumped(grow(value, count))


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _texts(value: Any, count: int) -> Any:
    if isinstance(value, str):
        return value * count
    return _within(value, lambda inner: _texts(inner, count))


def _lists(value: Any, count: int) -> Any:
    if isinstance(value, list):
        items = value or [{}]
        return [_named(items[number % len(items)], number) for number in range(count * len(items))]
    return _within(value, lambda inner: _lists(inner, count))


def _named(item: Any, number: int) -> Any:
    return {**item, "name": f"{item['name']}-{number}"} if isinstance(item, dict) and "name" in item else item


def _keys(value: Any, count: int) -> Any:
    if isinstance(value, dict) and not any(isinstance(inner, dict | list) for inner in value.values()):
        more = {f"k{number}": "v" for number in range(count)}
        return {**value, **more}
    return _within(value, lambda inner: _keys(inner, count))


def _within(value: Any, grow: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: grow(inner) for key, inner in value.items()}
    return [grow(inner) for inner in value] if isinstance(value, list) else value


def _longer(headers: dict[str, str], factor: int) -> dict[str, str]:
    counts = {name: OF_QUERY // (len(value) + 1) * factor for name, value in headers.items()}
    return {name: ",".join([value or "x"] * counts[name]) for name, value in headers.items()}


def _repeated(path: str, factor: int) -> str:
    base, mark, query = path.partition("?")
    name, equals, value = query.rpartition("=")
    value = value or "x"
    if not mark:
        base, slash, value = path.rpartition("/")
        return base + slash + value * max(1, OF_QUERY // len(value)) * factor
    return base + mark + name + equals + "%2C".join([value] * max(1, OF_QUERY // (len(value) + 3)) * factor)
