"""Aggregations: one vector to a smaller one, by or without labels."""

from __future__ import annotations

import math
from collections.abc import Callable

from kubesim.metrics.promql.values import QueryError, Sample, Vector, key, key_without, number

Group = tuple[tuple[str, str], ...]


def _deviation(values: list[float]) -> float:
    return math.sqrt(_variance(values))


def _variance(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def _most(values: list[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _least(values: list[float]) -> float:
    return min((value for value in values if not math.isnan(value)), default=math.nan)


SIMPLE: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "avg": lambda values: math.fsum(values) / len(values),
    "min": _least,
    "max": _most,
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
    "stddev": _deviation,
    "stdvar": _variance,
}
PICKING = frozenset({"topk", "bottomk"})


def quantile(share: float, values: list[float]) -> float:
    """Return the quantile of values, between neighbours in proportion."""
    if not values or math.isnan(share):
        return math.nan
    if share < 0 or share > 1:
        return math.copysign(math.inf, share - 0.5)
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - (rank - low)) + ordered[high] * (rank - low)


def aggregate(
    op: str, vector: Vector, labels: tuple[str, ...], *, without: bool, parameter: float | str | None
) -> Vector:
    """Return the aggregation of a vector. Raises QueryError for one that is not known, or without its parameter."""
    groups: dict[Group, Vector] = {}
    for sample in vector:
        group = key_without(sample.labels, labels) if without else key(sample.labels, labels)
        groups.setdefault(group, []).append(sample)
    if op in PICKING:
        return [sample for found in groups.values() for sample in _picked(op, found, parameter)]
    if op == "count_values":
        return [sample for group, found in groups.items() for sample in _counted(group, found, str(parameter))]
    return [Sample(dict(group), _one(op, [s.value for s in found], parameter)) for group, found in groups.items()]


def _one(op: str, values: list[float], parameter: float | str | None) -> float:
    if op == "quantile":
        return quantile(float(parameter or 0), values)
    if op not in SIMPLE:
        raise QueryError("bad_data", f"the aggregation {op} is not supported here")
    return SIMPLE[op](values)


def _picked(op: str, vector: Vector, parameter: float | str | None) -> Vector:
    count = int(parameter) if isinstance(parameter, float) and not math.isnan(parameter) else 0
    sign = -1 if op == "topk" else 1
    ordered = sorted(vector, key=lambda s: (math.isnan(s.value), sign * s.value if not math.isnan(s.value) else 0.0))
    return ordered[: max(count, 0)]


def _counted(group: Group, vector: Vector, label: str) -> Vector:
    counts: dict[str, int] = {}
    for sample in vector:
        counts[number(sample.value)] = counts.get(number(sample.value), 0) + 1
    return [Sample({**dict(group), label: value}, float(count)) for value, count in counts.items()]
