"""Binary operators: arithmetic, comparison and sets, with vector matching."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubesim.metrics.promql.values import NAME, Labels, QueryError, Sample, Vector, key, key_without, quoted

Group = tuple[tuple[str, str], ...]
Operation = Callable[[float, float], float]


def _divide(left: float, right: float) -> float:
    if right == 0:
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _modulo(left: float, right: float) -> float:
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _power(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0 and right % 2 == 1 else math.inf
    except ValueError:
        return math.inf if left == 0 else math.nan


ARITHMETIC: dict[str, Operation] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _modulo,
    "^": _power,
    "atan2": math.atan2,
}
COMPARISON: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
SETS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class Matching:
    """How two vectors meet: on or ignoring ``labels``; ``many``: "left" or "right" where one side may repeat."""

    labels: tuple[str, ...] = ()
    on: bool = False
    many: str = ""
    include: tuple[str, ...] = ()
    returns_bool: bool = False

    def key(self, labels: Labels) -> tuple[tuple[str, str], ...]:
        """Return what must be equal on both sides."""
        return key(labels, self.labels) if self.on else key_without(labels, self.labels)


def scalars(op: str, left: float, right: float) -> float:
    """Return the result for two numbers (a comparison of them must be ``bool``: 0 or 1)."""
    if op in COMPARISON:
        return float(COMPARISON[op](left, right))
    return ARITHMETIC[op](left, right)


def with_scalar(op: str, vector: Vector, scalar: float, *, swapped: bool, returns_bool: bool) -> Vector:
    """Return ``vector op scalar``, or ``scalar op vector`` where they are ``swapped``."""
    found: Vector = []
    for sample in vector:
        left, right = (scalar, sample.value) if swapped else (sample.value, scalar)
        if op not in COMPARISON:
            found.append(sample.bare(ARITHMETIC[op](left, right)))
        elif returns_bool:
            found.append(sample.bare(float(COMPARISON[op](left, right))))
        elif COMPARISON[op](left, right):
            found.append(sample)
    return found


def sets(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Return ``and``, ``or`` or ``unless`` of two vectors."""
    if op == "or":
        known = {matching.key(sample.labels) for sample in left}
        return [*left, *(sample for sample in right if matching.key(sample.labels) not in known)]
    known = {matching.key(sample.labels) for sample in right}
    return [sample for sample in left if (matching.key(sample.labels) in known) == (op == "and")]


def vectors(op: str, left: Vector, right: Vector, matching: Matching) -> Vector:
    """Return arithmetic or comparison of two vectors. Raises QueryError where a side repeats that must not."""
    many, one = (right, left) if matching.many == "right" else (left, right)
    singles = _singles(one, matching)
    found: Vector = []
    seen: set[object] = set()
    for sample in many:
        group = matching.key(sample.labels)
        other = singles.get(group)
        if other is None:
            continue
        pair = (other.value, sample.value) if matching.many == "right" else (sample.value, other.value)
        value = _value(op, pair, sample.value if matching.many != "right" else other.value, matching)
        if value is None:
            continue
        labels = _labels(op, sample.labels, other.labels, matching)
        mark = tuple(sorted(labels.items())) if matching.many else group
        if mark in seen:
            raise QueryError("execution", _MANY if not matching.many else _GROUPED)
        seen.add(mark)
        found.append(Sample(labels, value))
    return found


_MANY = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
_GROUPED = "multiple matches for labels: grouping labels must ensure unique matches"


def written(labels: Iterable[tuple[str, str]]) -> str:
    """Return labels as Prometheus writes them."""
    return "{" + ", ".join(f"{name}={quoted(value)}" for name, value in sorted(labels)) + "}"


def _singles(vector: Vector, matching: Matching) -> dict[Group, Sample]:
    found: dict[Group, Sample] = {}
    for sample in vector:
        group = matching.key(sample.labels)
        if group in found:
            side = "left" if matching.many == "right" else "right"
            raise QueryError(
                "execution",
                f"found duplicate series for the match group {written(group)} on the {side} hand-side of the "
                f"operation: [{written(sample.labels.items())}, {written(found[group].labels.items())}]"
                ";many-to-many matching not allowed: matching labels must be unique on one side",
            )
        found[group] = sample
    return found


def _value(op: str, pair: tuple[float, float], kept: float, matching: Matching) -> float | None:
    if op not in COMPARISON:
        return ARITHMETIC[op](*pair)
    holds = COMPARISON[op](*pair)
    if matching.returns_bool:
        return float(holds)
    return kept if holds else None


def _labels(op: str, many: Labels, one: Labels, matching: Matching) -> Labels:
    keeps_name = op in COMPARISON and not matching.returns_bool
    labels = {name: value for name, value in many.items() if keeps_name or name != NAME}
    if not matching.many:
        return {name: value for name, value in labels.items() if (name in matching.labels) == matching.on}
    for name in matching.include:
        if one.get(name):
            labels[name] = one[name]
        else:
            labels.pop(name, None)
    return labels
