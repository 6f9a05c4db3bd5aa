"""Functions of instant vectors and scalars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import re2

from kubesim.metrics.promql.values import LABEL, NAME, QueryError, Sample, Vector, compiled


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: float(function(value)) if math.isfinite(value) else value


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


MATH: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "sqrt": _root,
}


def mapped(name: str, vector: Vector) -> Vector:
    """Return a function of one number over a vector."""
    return [sample.bare(MATH[name](sample.value)) for sample in vector]


def clamp(vector: Vector, low: float, high: float) -> Vector:
    """Return values held within bounds; nothing where they are crossed."""
    return [] if low > high else [sample.bare(_higher(low, _lower(high, sample.value))) for sample in vector]


def _lower(one: float, other: float) -> float:
    """Return the lesser; beside what is not a number only minus infinity stands (Go's math.Min)."""
    if -math.inf in (one, other):
        return -math.inf
    return math.nan if math.isnan(one) or math.isnan(other) else min(one, other)


def _higher(one: float, other: float) -> float:
    """Return the greater; beside what is not a number only infinity stands (Go's math.Max)."""
    return -_lower(-one, -other)


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
    return Sample(_with(sample.labels, target, text), sample.value, sample.at)


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
