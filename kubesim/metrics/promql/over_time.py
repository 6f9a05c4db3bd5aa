"""Functions of range vectors: rates, and summaries over time."""

from __future__ import annotations

import math
from collections.abc import Callable

from kubesim.metrics.promql.aggregations import least, mean, most, quantile, total, variance
from kubesim.metrics.promql.values import Window


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


def instant(window: Window, *, counter: bool, per_second: bool) -> float | None:
    """Return the change between the last two points."""
    if len(window.points) < 2:
        return None
    (before_at, before), (at, last) = window.points[-2:]
    change = last if counter and last < before else last - before
    return change / (at - before_at) if per_second else change


def regression(window: Window, at: float) -> tuple[float, float] | None:
    """Return slope per second and value at ``at`` of the straight line through a window."""
    if len(window.points) < 2:
        return None
    count = len(window.points)
    xs = [point[0] - at for point in window.points]
    ys = [point[1] for point in window.points]
    if all(y == ys[0] for y in ys):
        return (math.nan, math.nan) if math.isinf(ys[0]) else (0.0, ys[0])
    mean_x, mean_y = total(xs) / count, total(ys) / count
    spread = total((x - mean_x) ** 2 for x in xs)
    slope = total((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return slope, mean_y - slope * mean_x


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
    "stddev_over_time": lambda values: math.sqrt(variance(values)),
    "stdvar_over_time": variance,
    "changes": _changes,
    "resets": _resets,
}
RATES: dict[str, Callable[[Window], float | None]] = {
    "rate": lambda window: extrapolated(window, counter=True, per_second=True),
    "increase": lambda window: extrapolated(window, counter=True, per_second=False),
    "delta": lambda window: extrapolated(window, counter=False, per_second=False),
    "irate": lambda window: instant(window, counter=True, per_second=True),
    "idelta": lambda window: instant(window, counter=False, per_second=False),
}
KEEPS_NAME = frozenset({"last_over_time"})


def over_time(name: str, window: Window) -> float | None:
    """Return what a function of one range vector makes of one window; None leaves the series out."""
    if name in RATES:
        return RATES[name](window)
    return SUMMARIES[name](_values(window)) if window.points else None


def quantile_over_time(share: float, window: Window) -> float | None:
    """Return a quantile of a window's values."""
    return quantile(share, _values(window)) if window.points else None


def predict_linear(window: Window, at: float, seconds: float) -> float | None:
    """Return where the line through a window is ``seconds`` after ``at``."""
    line = regression(window, at)
    return None if line is None else line[0] * seconds + line[1]


def deriv(window: Window) -> float | None:
    """Return the slope per second of the line through a window."""
    line = regression(window, window.points[0][0]) if window.points else None
    return None if line is None else line[0]
