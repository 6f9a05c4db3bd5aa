"""What the parts of a CEL expression cost when they are run: about as much as upstream counts."""

from __future__ import annotations

from math import ceil
from typing import Any

from kubesim.cel.values import TOO_DEAR, CostError, size

STRINGS, REGEXES = 0.1, 0.25
"""How much it costs to go through a text, and how much a character of a pattern does."""
NEW_LIST, NEW_MAP = 10, 30
CHECK = 350_000
"""What a question to the authorizer costs."""
LIMIT = 1_000_000
"""How much one expression may cost."""
PATTERNS = frozenset(("find", "findAll", "matches"))
WHOLE = frozenset((
    "_==_", "_!=_", "_+_", "@in", "contains", "equivalent", "indexOf", "intersects", "isSorted", "join",
    "lastIndexOf", "max", "min", "sum",
))  # fmt: skip
"""Functions and operators that go through lists and maps."""


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


def of_call(name: str, given: list[Any]) -> int:
    """Return what a call of a function or operator costs, by what it is given (what it is called on first)."""
    if name == "check":
        return CHECK
    if name in PATTERNS and len(given) > 1:
        return ceil((1 + size(given[0])) * STRINGS) * ceil(size(given[1]) * REGEXES)
    texts = sum(len(value) for value in given if isinstance(value, str | bytes))
    others = sum(size(value) for value in given if not isinstance(value, str | bytes)) if name in WHOLE else 0
    return 1 + int(texts * STRINGS) + others
