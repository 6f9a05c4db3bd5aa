"""Numbers that may be given as a percentage."""

from __future__ import annotations

import math


def share(value: int | str, total: int) -> int:
    """Return a number of pods, or a percentage of ``total`` rounded up."""
    return math.ceil(int(value.rstrip("%")) * total / 100) if isinstance(value, str) else int(value)
