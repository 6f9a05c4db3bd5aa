"""What the parts of a CEL expression cost when they are run, as upstream counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from kubesim.cel.values import TOO_DEAR, CostError, size

STRINGS, REGEXES = 0.1, 0.25
"""How much it costs to go through a text, and how much a character of a pattern does."""
NEW_LIST, NEW_MAP = 10, 30
CHECK = 350_000
FORMAT_PATTERN = 128
LIMIT = 1_000_000
"""How much one expression may cost."""


class Meter:
    """Counts what an expression costs; raises CostError when it costs more than it may."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.spent = 0
        self.limit = limit

    def add(self, cost: int) -> None:
        """Count some more."""
        self.spent += cost
        if self.spent > self.limit:
            raise CostError(TOO_DEAR)


def through(value: Any) -> int:
    """Return what it costs to go through a whole value."""
    if isinstance(value, str | bytes):
        return int(len(value) * STRINGS)
    if isinstance(value, list):
        return sum(map(through, value))
    return sum(through(key) + through(item) for key, item in value.items()) if isinstance(value, Mapping) else 1


def _text(times: int = 1) -> Callable[[list[Any], Any], int]:
    return lambda given, result: ceil(size(given[0]) * times * STRINGS)


def _matching(given: list[Any], result: Any) -> int:
    return ceil((1 + size(given[0])) * STRINGS) * ceil(size(given[1]) * REGEXES)


def _containing(given: list[Any], result: Any) -> int:
    return ceil(size(given[0]) * STRINGS) * ceil(size(given[1]) * STRINGS) if isinstance(given[0], str) else 1


def _comparing(given: list[Any], result: Any) -> int:
    return ceil(min(map(size, given)) * STRINGS)


def _adding(given: list[Any], result: Any) -> int:
    return ceil(sum(map(size, given)) * STRINGS) if isinstance(given[0], str | bytes) else 1


def _going_through(given: list[Any], result: Any) -> int:
    return through(given[0])


COSTS: dict[str, Callable[[list[Any], Any], int]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _going_through),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "quantity", "isQuantity", "semver",
                     "isSemver", "cidr", "isIP", "isCIDR", "ip", "startsWith", "endsWith", "format", "quote"),
                    _text()),
    **dict.fromkeys(("replace", "split", "isCanonical"), _text(2)),
    "join": lambda given, result: ceil(size(result) * 2 * STRINGS),
    **dict.fromkeys(("find", "findAll", "matches"), _matching),
    "contains": _containing,
    "validate": lambda given, result: ceil((1 + size(given[1])) * STRINGS) * ceil(FORMAT_PATTERN * REGEXES),
    "check": lambda given, result: CHECK,
    "@in": lambda given, result: size(given[1]) if isinstance(given[1], list) else 1,
    **dict.fromkeys(("_==_", "_!=_"), _comparing),
    **{name: lambda given, result: _comparing(given, result) if isinstance(given[0], str | bytes) else 1
       for name in ("_<_", "_<=_", "_>_", "_>=_")},
    "_+_": _adding,
}  # fmt: skip
"""By function or operator: what a call costs, by what it is given (what it is called on first) and returns; else 1.
"""


def of_call(name: str, given: list[Any], result: Any) -> int:
    """Return what a call costs."""
    cost = COSTS.get(name)
    return cost(given, result) if cost is not None and given else 1
