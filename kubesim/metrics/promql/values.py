"""Values of PromQL: samples, series, and how Prometheus writes numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import re2

NAME = "__name__"
LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
Labels = Mapping[str, str]
Point = tuple[float, float]
"""(seconds since the epoch, value)"""


class QueryError(Exception):
    """A query that cannot be answered; ``kind`` is Prometheus' errorType (bad_data, execution)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(slots=True)
class Sample:
    """One element of an instant vector.

    Nobody changes one; it is not frozen because a query makes thousands, and that takes three times as long.
    """

    labels: Labels
    value: float

    def bare(self, value: float) -> Sample:
        """Return the sample with another value and without its metric's name, as most operations leave it."""
        return Sample({k: v for k, v in self.labels.items() if k != NAME}, value)


@dataclass(frozen=True, slots=True)
class Window:
    """One element of a range vector: the points in (``start``, ``end``]."""

    labels: Labels
    points: Sequence[Point]
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Match:
    """A label matcher: ``=``, ``!=``, ``=~`` or ``!~``."""

    name: str
    op: str
    value: str


Vector = list[Sample]
Matrix = list[Window]
Value = float | str | Vector | Matrix


def number(value: float) -> str:
    """Return a float as the API writes it: the shortest decimal digits that give it back, never an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e15:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    return format(Decimal(repr(value)), "f")


def compiled(pattern: str) -> Any:
    """Return a regular expression of RE2, as Go has them. Raises re2.error, and nothing on standard error."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def quoted(text: str) -> str:
    """Return a text in quotes, as Go's %q writes it."""
    return json.dumps(text, ensure_ascii=False)


def key(labels: Labels, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the part of ``labels`` that ``names`` pick, to group by; an absent label is an empty one."""
    return tuple([(name, value) for name in sorted(names) if (value := labels.get(name))])


def key_without(labels: Labels, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return all of ``labels`` but ``names`` and the metric's name."""
    left = {*names, NAME}
    return tuple(sorted((name, value) for name, value in labels.items() if name not in left and value))
