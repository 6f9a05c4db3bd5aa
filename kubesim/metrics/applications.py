"""Metrics of programs that their image describes (``metrics`` in kubelet/imagefile.yaml), as functions of time.

A request takes longer while others work on the program's GPU, which then serves all of them in turns, and where a CPU
limit keeps the program from what it needs. Histograms count the requests of each such time where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, inf

from kubesim.errors import Obj
from kubesim.kubelet.servers import Course
from kubesim.metrics.exposition import Exposed, Family, render, written
from kubesim.metrics.promql.values import NAME, Labels
from kubesim.metrics.scrape import Function

BOUNDS = (0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, inf)
WITHOUT_GPU = 12.0
"""How many times longer a request takes on processors alone."""
MAX_RATE, BUSY_PERCENT = 1e6, 5
"""Requests a second that a variable may ask for; utilisation from which on another process takes turns on a GPU."""
Line = tuple[Family, str, Labels, Callable[[float], float]]
"""A metric, a suffix, labels, and the value after so many seconds."""


@dataclass(frozen=True, slots=True)
class Application:
    """The metrics of one container's process."""

    metrics: Sequence[Obj]
    course: Course

    def series(self, name: str, start: float, end: float) -> Iterator[Function]:
        """Yield the series of one metric ("" for all)."""
        for family, suffix, labels, value in self._lines():
            if name in ("", family.name + suffix):
                yield Function({NAME: family.name + suffix, **labels}, self._since(value))

    def page(self, age: float) -> str:
        """Return the page after so many seconds."""
        return render(Exposed(family, labels, value(age), suffix) for family, suffix, labels, value in self._lines())

    def _since(self, value: Callable[[float], float]) -> Callable[[float], float | None]:
        started = self.course.started
        return lambda at: value(at - started) if at >= started else None

    def _lines(self) -> Iterator[Line]:
        for each in self.metrics:
            told, labels = self.course.variables.get(each.get("rateVariable", ""), ""), each.get("labels", {})
            rate = min(float(told), MAX_RATE) if told.isdecimal() else each.get("rate", 0)
            kind = "histogram" if "seconds" in each else each.get("type", "counter" if "rate" in each else "gauge")
            family = Family(each["name"], kind, str(each.get("help", each["name"])))
            if kind == "histogram":
                yield from self._histogram(family, labels, rate, each["seconds"])
            else:
                yield family, "", labels, self._plain(each, rate, whole=kind == "counter")

    def _plain(self, metric: Obj, rate: float, *, whole: bool) -> Callable[[float], float]:
        """Return what grows by ``rate`` each second, or follows what the process uses."""
        if metric.get("measure") == "cpu":
            return lambda age: round(self.course.usage.cpu_seconds(age), 2)
        first = metric.get("value", 0)
        return lambda age: floor(first + rate * age) if whole else round(first + rate * age, 6)

    def _histogram(self, family: Family, labels: Labels, rate: float, durations: Sequence[float]) -> Iterator[Line]:
        """Yield a histogram; ``durations`` are those of equally many requests that nothing slows down."""
        each = rate / len(durations)

        def counting(bound: float) -> Callable[[float], float]:
            return lambda age: floor(
                sum(each * s * sum(took * slower <= bound for took in durations) for s, slower in self._spans(age))
            )

        for bound in BOUNDS:
            yield family, "_bucket", {**labels, "le": written(bound)}, counting(bound)
        yield (
            family,
            "_sum",
            labels,
            lambda age: each * sum(durations) * sum(s * slow for s, slow in self._spans(age)),
        )
        yield family, "_count", labels, counting(inf)

    def _spans(self, age: float) -> Iterator[tuple[float, float]]:
        """Yield seconds of its life, and how many times longer a request took then."""
        usage, start, end = self.course.usage, self.course.started, self.course.started + age
        starved = max((usage.low + usage.high) / 2 / max(usage.mean, 1e-9), 1.0)
        if not self.course.devices:
            yield age, starved * WITHOUT_GPU
            return
        states = self.course.devices[0].states(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
        times = [start, *(state.since.timestamp() for state in states[1:]), end]
        for state, since, until in zip(states, times[:-1], times[1:], strict=True):
            others = (task.load.util[1] for task in state.tasks if task.owner != self.course.owner)
            yield until - since, starved * (1 + sum(util > BUSY_PERCENT for util in others))
