"""Targets and their series, as a Prometheus that scrapes them would have stored them.

Nothing is scraped and nothing stored: a series is a function of time, and its samples are that function at the times
of the target's scrapes. So a cluster that nobody asks costs nothing, and its past is there all the same.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import re2

from kubesim.metrics.promql.values import NAME, Labels, Match, Point, QueryError, compiled

INTERVAL_S = 15.0
LAST_S = 250_000_000_000.0
"""No series reaches beyond the calendar."""
MOST_POINTS = 50_000
"""Points that one series gives to one query."""


@dataclass(slots=True)
class Function:
    """A series of an exporter: labels with the metric's name, and its value at a moment (None: not exposed then)."""

    labels: Labels
    value: Callable[[float], float | None]


def constant(value: float) -> Callable[[float], float | None]:
    """Return what has the same value at every moment."""
    return lambda moment: value


Exporter = Callable[[str, float, float], Iterable[Function]]
"""(metric name, or "" for all; start; end) -> the series that it may have exposed in that span."""


@dataclass
class Target:
    """A scraped target: its labels, its exporter, since when, and what stood in the way (empty: nothing)."""

    labels: dict[str, str]
    exporter: Exporter
    since: float
    url: str = ""
    discovered: dict[str, str] = field(default_factory=dict)
    honor_labels: bool = False
    interval_s: float = INTERVAL_S
    until: float = math.inf
    """When discovery lost it."""
    keep: Callable[[Labels], Labels | None] = lambda labels: labels
    """The metric_relabel_configs of its job: labels after them, None for a series that is dropped."""
    error: Timeline[str] = field(init=False)

    def __post_init__(self) -> None:
        self.error = Timeline(self.since, "")
        self._last: tuple[object, tuple[float, bool, bool]] = (None, (0.0, False, False))
        self._phase = zlib.crc32(self.url.encode() or repr(self.labels).encode()) % 1000 / 1000 * self.interval_s

    def scrape_before(self, at: float) -> float:
        """Return the time of the last scrape that is not after ``at``."""
        return math.floor((at - self._phase) / self.interval_s) * self.interval_s + self._phase

    def last_before(self, at: float) -> tuple[float, bool, bool]:
        """Return the last scrape before a moment: when, whether the target was known then, and whether it went well.

        All series of a target are asked for the same moment, so the answer is kept until the next change.
        """
        key = (at, self.until, self.error.changed, self.error.last)
        if self._last[0] != key:
            scrape = self.scrape_before(at)
            self._last = key, (scrape, self.since <= scrape < self.until, self.up(scrape))
        return self._last[1]

    def scrapes(self, after: float, until: float) -> Iterator[float]:
        """Yield the times of the scrapes in (after, until]."""
        first = max(self.scrape_before(after) + self.interval_s, self.scrape_before(self.since) + self.interval_s)
        count = max(math.floor((until - first) / self.interval_s) + 1, 0)
        if count > MOST_POINTS:
            raise QueryError(
                "execution", "query processing would load too many samples into memory in query execution"
            )
        return (first + number * self.interval_s for number in range(count))

    def up(self, at: float) -> bool:
        """Tell whether the scrape of a moment went well."""
        return self.since <= at < self.until and not self.error.at(at)

    def series(self, name: str, start: float, end: float) -> Iterator[Scraped]:
        """Yield the series of a metric ("" for all), with the target's labels."""
        for label, value in (("up", lambda at: float(self.up(at))), ("scrape_samples_scraped", self._count)):
            if name in ("", label):
                yield Scraped({NAME: label, **self.labels}, value, self, always=True)
        for function in self.exporter(name, start, end):
            labels = self.keep(self._labelled(function.labels))
            if labels is not None:
                if "" in labels.values():  # an empty label is none
                    labels = {name: value for name, value in labels.items() if value}
                yield Scraped(labels, function.value, self)

    def _labelled(self, labels: Labels) -> dict[str, str]:
        if self.honor_labels:
            return {**self.labels, **labels}
        moved = {f"exported_{name}" if name in self.labels else name: value for name, value in labels.items()}
        return {**moved, **self.labels}

    def _count(self, at: float) -> float:
        if not self.up(at):
            return 0.0
        return float(sum(function.value(at) is not None for function in self.exporter("", at, at)))


@dataclass(slots=True)
class Scraped:
    """A stored series: the samples are its function at the scrapes of its target that went well.

    Like ``Function`` not frozen, as a query makes thousands of them.
    """

    labels: Labels
    value: Callable[[float], float | None]
    target: Target
    always: bool = False
    """Whether Prometheus writes it itself, also where the scrape fails."""

    def last(self, at: float, lookback: float) -> Point | None:
        """Return the last scrape's sample; a failed scrape, or one without this series, makes it stale."""
        scrape, known, went_well = self.target.last_before(at)
        if scrape <= at - lookback or not known or not (went_well or self.always):
            return None
        value = self.value(scrape)
        return None if value is None else (scrape, value)

    def points(self, after: float, until: float) -> Sequence[Point]:
        """Return the samples of a span."""
        found = (self._point(scrape) for scrape in self.target.scrapes(after, until))
        return [point for point in found if point is not None]

    def _point(self, scrape: float) -> Point | None:
        known = self.target.since <= scrape < self.target.until
        if not known or not (self.always or self.target.up(scrape)):
            return None
        value = self.value(scrape)
        return None if value is None else (scrape, value)


class Database:
    """The targets of one Prometheus; queries are answered from it."""

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.held: dict[tuple[object, ...], tuple[float, float]] = {}
        """Since when an alert holds, and until when that was seen."""

    def select(self, matches: Sequence[Match], start: float, end: float) -> Iterable[Scraped]:
        """Return the series that match and may have samples between ``start`` and ``end``."""
        exact = next((match.value for match in matches if match.name == NAME and match.op == "="), "")
        tests = [_test(match) for match in matches]
        (only,) = tests if len(tests) == 1 else (lambda labels: all(test(labels) for test in tests),)
        for target in self.targets:
            if target.until < start or target.since > end or start > LAST_S:
                continue
            for series in target.series(exact, max(start, target.since), min(end, LAST_S)):
                if only(series.labels):
                    yield series


def fits(matches: Sequence[Match], labels: Labels) -> bool:
    """Tell whether labels have what is wanted of them."""
    return all(_test(match)(labels) for match in matches)


def _test(match: Match) -> Callable[[Labels], bool]:
    name, value = match.name, match.value
    if match.op in ("=", "!="):
        wanted = match.op == "="
        return lambda labels: (labels.get(name, "") == value) == wanted
    try:
        pattern = compiled(value)
    except re2.error as error:
        raise QueryError("bad_data", f'invalid parameter "query": error parsing regexp: {error}') from error
    fits = match.op == "=~"
    return lambda labels: bool(pattern.fullmatch(labels.get(name, ""))) == fits


T = TypeVar("T")
MOST_CHANGES = 2048


class Timeline(Generic[T]):
    """Changes of a value in order of time (seconds since the epoch). The oldest are forgotten beyond a bound."""

    __slots__ = ("_times", "_values")

    def __init__(self, at: float, value: T) -> None:
        self._times = [at]
        self._values = [value]

    def set(self, at: float, value: T) -> None:
        """Let the value be another from ``at`` on; the same again is no change."""
        if self._values[-1] == value:
            return
        if at <= self._times[-1]:
            self._values[-1] = value
            return
        self._times.append(at)
        self._values.append(value)
        if len(self._times) > MOST_CHANGES:
            del self._times[: MOST_CHANGES // 4], self._values[: MOST_CHANGES // 4]

    def at(self, moment: float) -> T | None:
        """Return the value at a moment; None before the first."""
        index = bisect_right(self._times, moment) - 1
        return self._values[index] if index >= 0 else None

    @property
    def last(self) -> T:
        """The value now."""
        return self._values[-1]

    @property
    def first(self) -> T:
        """The oldest value that is known."""
        return self._values[0]

    @property
    def changed(self) -> float:
        """Since when it has had the value of now."""
        return self._times[-1]

    def within(self, after: float, until: float) -> list[T]:
        """Return the values it had in a span, the one at its beginning included."""
        first = max(bisect_right(self._times, after) - 1, 0)
        return self._values[first : bisect_right(self._times, until)]
