"""Numbers that may be given as a percentage."""

from __future__ import annotations

import math
from collections.abc import Callable


def share(value: int | str, total: int, rounded: Callable[[float], int] = math.ceil) -> int:
    """Return a number of pods, or a percentage of ``total``, rounded up or as is said."""
    return rounded(int(value.rstrip("%")) * total / 100) if isinstance(value, str) else int(value)
