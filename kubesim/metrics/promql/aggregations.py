"""Aggregations: one vector to a smaller one, by or without labels.

Sums of floats are as exact as they can be, and never an error where one is infinite or not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from kubesim.metrics.promql.values import QueryError, Sample, Vector, key, key_without, number


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


Group = tuple[tuple[str, str], ...]


SIMPLE: dict[str, Callable[[list[float]], float]] = {
    "sum": total,
    "avg": mean,
    "min": least,
    "max": most,
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
    "stddev": lambda values: math.sqrt(variance(values)),
    "stdvar": variance,
}
PICKING = frozenset({"topk", "bottomk"})


def quantile(share: float, values: list[float]) -> float:
    """Return the quantile of values, between neighbours in proportion."""
    if not values or math.isnan(share):
        return math.nan
    if share < 0 or share > 1:
        return math.copysign(math.inf, share - 0.5)
    ordered = sorted(values, key=ascending)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - (rank - low)) + ordered[high] * (rank - low)


def aggregate(op: str, vector: Vector, labels: tuple[str, ...], *, without: bool, parameter: float | None) -> Vector:
    """Return the aggregation of a vector. Raises QueryError for one that is not known, or without its parameter."""
    groups: dict[Group, Vector] = {}
    for sample in vector:
        group = key_without(sample.labels, labels) if without else key(sample.labels, labels)
        groups.setdefault(group, []).append(sample)
    if op in PICKING:
        return [sample for found in groups.values() for sample in _picked(op, found, parameter)]
    return [Sample(dict(group), _one(op, [s.value for s in found], parameter)) for group, found in groups.items()]


def _one(op: str, values: list[float], parameter: float | None) -> float:
    if op == "quantile":
        return quantile(float(parameter or 0), values)
    if op not in SIMPLE:
        raise QueryError("bad_data", f"the aggregation {op} is not supported here")
    return SIMPLE[op](values)


def _picked(op: str, vector: Vector, parameter: float | None) -> Vector:
    count = counted(parameter)
    sign = -1 if op == "topk" else 1
    ordered = sorted(vector, key=lambda s: (math.isnan(s.value), sign * s.value if not math.isnan(s.value) else 0.0))
    return ordered[: max(count, 0)]


def counted(parameter: float | None) -> int:
    """Return how many elements are to be picked. Raises QueryError for what is no whole number of a machine."""
    if parameter is None or not -(2.0**63) <= parameter < 2.0**63:
        raise QueryError("execution", f"Scalar value {number(parameter or math.nan)} overflows int64")
    return int(parameter)
