"""Functions of PromQL: of instant vectors and scalars, of range vectors, and aggregations.

Sums of floats are as exact as they can be, and never an error where one is infinite or not a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import re2

from kubesim.metrics.promql.values import (
    LABEL,
    NAME,
    QueryError,
    Sample,
    Vector,
    Window,
    compiled,
    key,
    key_without,
    number,
)


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


def most(values: Iterable[float]) -> float:
    """Return the greatest; what is not a number does not count beside one that is."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def least(values: Iterable[float]) -> float:
    """Return the least; what is not a number does not count beside one that is."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def ascending(value: float) -> tuple[bool, float]:
    """Return what values are sorted by where not-a-numbers come first."""
    return (False, 0.0) if math.isnan(value) else (True, value)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if math.isfinite(value) else value


MATH: dict[str, Callable[[float], float]] = {"abs": abs, "ceil": _whole(math.ceil), "floor": _whole(math.floor)}


def mapped(name: str, vector: Vector) -> Vector:
    """Return a function of one number over a vector."""
    return [sample.bare(MATH[name](sample.value)) for sample in vector]


def rounded(vector: Vector, nearest: float = 1.0) -> Vector:
    """Return values rounded to the nearest multiple, halves up."""
    inverse = 1 / nearest if nearest else math.copysign(math.inf, nearest)
    return [sample.bare(_rounded(sample.value, inverse)) for sample in vector]


def _rounded(value: float, inverse: float) -> float:
    scaled = value * inverse + 0.5
    if not math.isfinite(scaled):
        return math.nan if math.isnan(scaled) or math.isinf(inverse) else scaled / inverse
    return math.floor(scaled) / inverse


def ordered(vector: Vector, *, descending: bool = False) -> Vector:
    """Return a vector by value, not-a-numbers last."""
    sign = -1 if descending else 1
    return sorted(vector, key=lambda s: (math.isnan(s.value), 0.0 if math.isnan(s.value) else sign * s.value))


def label_replace(vector: Vector, target: str, replacement: str, source: str, pattern: str) -> Vector:
    """Set a label from another that matches a pattern. Raises QueryError for a bad pattern."""
    if not LABEL.fullmatch(target):
        raise QueryError("execution", f"invalid destination label name in label_replace(): {target}")
    try:
        expression = compiled(pattern)
    except re2.error as error:
        raise QueryError("execution", f"invalid regular expression in label_replace(): {pattern}") from error
    return [
        _replaced(sample, expression.fullmatch(sample.labels.get(source, "")), target, replacement)
        for sample in vector
    ]


def _replaced(sample: Sample, match: Any | None, target: str, replacement: str) -> Sample:
    if match is None:
        return sample
    text = re2.sub(
        r"\$(?:(\$)|\{(\w+)\}|(\w+))",
        lambda found: found.group(1) or _group(match, found.group(2) or found.group(3)),
        replacement,
    )
    return Sample(_with(sample.labels, target, text), sample.value)


def _group(match: Any, name: str) -> str:
    try:
        return match.group(int(name) if name.isdecimal() else name) or ""
    except (IndexError, KeyError):
        return ""


def _with(labels: object, name: str, value: str) -> dict[str, str]:
    changed = {**dict(labels), name: value}  # type: ignore[call-overload]
    return {key: text for key, text in changed.items() if text}


def histogram_quantile(share: float, vector: Vector) -> Vector:
    """Return the quantile that cumulative buckets (label ``le``) tell of."""
    groups: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for sample in vector:
        rest = tuple(sorted((k, v) for k, v in sample.labels.items() if k not in ("le", NAME)))
        try:
            bound = float(sample.labels["le"].replace("Inf", "inf"))
        except (KeyError, ValueError):
            continue
        buckets = groups.setdefault(rest, {})
        buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return [Sample(dict(labels), _bucket_quantile(share, _rising(found))) for labels, found in groups.items()]


def _rising(buckets: dict[float, float]) -> list[tuple[float, float]]:
    """Return buckets in their order, none with less in it than the one below."""
    found: list[tuple[float, float]] = []
    for bound, count in sorted(buckets.items()):
        found.append((bound, max(count, found[-1][1]) if found else count))
    return found


def _bucket_quantile(share: float, buckets: list[tuple[float, float]]) -> float:
    if math.isnan(share) or share < 0 or share > 1:
        return math.nan if math.isnan(share) else math.copysign(math.inf, share - 0.5)
    if len(buckets) < 2 or buckets[-1][0] != math.inf or not buckets[-1][1]:
        return math.nan
    rank = share * buckets[-1][1]
    index = next((i for i, (_, count) in enumerate(buckets[:-1]) if count >= rank), len(buckets) - 1)
    if index == len(buckets) - 1:
        return buckets[-2][0]
    end, count = buckets[index]
    if index == 0 and end <= 0:
        return end
    start, below = buckets[index - 1] if index else (0.0, 0.0)
    return start + (end - start) * ((rank - below) / (count - below)) if count > below else math.nan


def extrapolated(window: Window, *, counter: bool, per_second: bool) -> float | None:
    """Return the change over a window, stretched to its ends (Prometheus' promql/functions.go, extrapolatedRate)."""
    points = window.points
    if len(points) < 2:
        return None
    (first_at, first), (last_at, last) = points[0], points[-1]
    change = last - first + (_resets_sum(window) if counter else 0.0)
    sampled = _span(first_at, last_at)
    average = sampled / (len(points) - 1)
    before, behind = _span(window.start, first_at), _span(last_at, window.end)
    limit = average * 1.1
    before = before if before < limit else average / 2
    if counter and change > 0 and first >= 0:
        before = min(before, sampled * (first / change))
    behind = behind if behind < limit else average / 2
    factor = (sampled + before + behind) / sampled
    return change * (factor / _span(window.start, window.end) if per_second else factor)


def _span(start: float, end: float) -> float:
    """Return the seconds between two moments, which are known to the millisecond."""
    return round((end - start) * 1000) / 1000


def irate(window: Window) -> float | None:
    """Return the rate between the last two points."""
    if len(window.points) < 2:
        return None
    (before_at, before), (at, last) = window.points[-2:]
    return (last if last < before else last - before) / (at - before_at)


def _resets_sum(window: Window) -> float:
    values = [value for _, value in window.points]
    return total(before for before, after in zip(values, values[1:], strict=False) if after < before)


def _values(window: Window) -> list[float]:
    return [value for _, value in window.points]


def _changes(values: list[float]) -> float:
    pairs = zip(values, values[1:], strict=False)
    return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for a, b in pairs))


def _resets(values: list[float]) -> float:
    return float(sum(after < before for before, after in zip(values, values[1:], strict=False)))


SUMMARIES: dict[str, Callable[[list[float]], float]] = {
    "avg_over_time": mean,
    "sum_over_time": total,
    "min_over_time": least,
    "max_over_time": most,
    "count_over_time": lambda values: float(len(values)),
    "last_over_time": lambda values: values[-1],
    "present_over_time": lambda values: 1.0,
    "changes": _changes,
    "resets": _resets,
}
RATES: dict[str, Callable[[Window], float | None]] = {
    "rate": lambda window: extrapolated(window, counter=True, per_second=True),
    "increase": lambda window: extrapolated(window, counter=True, per_second=False),
    "delta": lambda window: extrapolated(window, counter=False, per_second=False),
    "irate": irate,
}
KEEPS_NAME = frozenset({"last_over_time"})


def over_time(name: str, window: Window) -> float | None:
    """Return what a function of one range vector makes of one window; None leaves the series out."""
    if name in RATES:
        return RATES[name](window)
    return SUMMARIES[name](_values(window)) if window.points else None


Group = tuple[tuple[str, str], ...]
SIMPLE: dict[str, Callable[[list[float]], float]] = {
    "sum": total,
    "avg": mean,
    "min": least,
    "max": most,
    "count": lambda values: float(len(values)),
    "group": lambda values: 1.0,
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
