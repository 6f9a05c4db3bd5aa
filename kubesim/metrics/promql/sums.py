"""Sums of floats: as exact as they can be, and never an error where one is infinite or not a number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def total(values: Iterable[float]) -> float:
    """Return a sum; what is infinite on both sides is not a number."""
    found = [*values]
    try:
        return math.fsum(found)
    except (ValueError, OverflowError):
        return sum(found)


def mean(values: Sequence[float]) -> float:
    """Return the mean, also of numbers whose sum would be too large."""
    found, count = total(values), len(values)
    if math.isfinite(found) or not all(map(math.isfinite, values)):
        return found / count
    return total(value / count for value in values)


def variance(values: Sequence[float]) -> float:
    """Return the variance of a whole population."""
    middle = mean(values)
    return total(_square(value - middle) for value in values) / len(values)


def _square(value: float) -> float:
    return value * value


def most(values: Iterable[float]) -> float:
    """Return the greatest; what is not a number does not count beside one that is."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def least(values: Iterable[float]) -> float:
    """Return the least; what is not a number does not count beside one that is."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def ascending(value: float) -> tuple[bool, float]:
    """Return what values are sorted by where not-a-numbers come first."""
    return (False, 0.0) if math.isnan(value) else (True, value)
