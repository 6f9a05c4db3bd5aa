"""Charts over interview time: from samples and the events of the time line to lines, marks, words and tables.

The live page, the scorecard and its PDF draw the same charts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH, HEIGHT = 1000, 100  # of a drawing, whatever the space that it is given
MAX_LINES = 6  # more could not be told apart; the table has them all
MAX_POINTS = 240
MIN_SPAN_MS = 60_000
MAX_TICKS = 6
GAP_MS = 150_000  # two samples that are farther apart are not joined: nothing is known in between
_STEPS_MIN = (1, 2, 5, 10, 15, 30, 60, 120)
Values = Sequence[float | None]
Numbers = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Sample:
    """The pods at one moment of a session; the values of each in the order of ``KINDS``."""

    ms: int
    pods: Mapping[str, Values]


@dataclass(frozen=True, slots=True)
class Marker:
    """A moment that a chart is read against: a fault, a hint, or a fix. ``x`` is a percentage of the width."""

    ms: int
    word: str
    shape: str
    hue: str
    x: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One chart: its title and unit, how a number is written, and its fixed top where it has one."""

    key: str
    title: str
    unit: str
    write: Numbers
    top: float | None = None
    scale: float = 1.0
    steps: tuple[int, ...] = (1, 2, 5, 10)
    """The ends that the axis may have, times a power of ten; its middle is written, too."""
    least: float = 0.0
    """The lowest end of the axis: what is next to nothing looks like it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A pod's line; ``number`` (1 to 6) is its colour in every chart."""

    pod: str
    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Row:
    """A pod in a chart's table, in numbers with their unit left out."""

    pod: str
    least: str
    mean: str
    most: str
    last: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One kind of value over time. ``labels`` are those of the axis, from the top to the bottom."""

    kind: Kind
    lines: list[Line]
    labels: list[str]
    summary: str
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Charts:
    """All charts of a session over one span of its time, with what they have in common."""

    charts: list[Chart]
    pods: list[tuple[int, str]]
    others: int
    markers: list[Marker]
    ticks: list[tuple[str, str]]
    begin_ms: int
    end_ms: int


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}" if value < 1 else f"{value:.1f}"


KINDS: Final = (
    Kind("gpu", "GPU utilisation", "%", _whole, top=100.0),
    Kind("memory", "GPU memory", "GiB", _short, scale=1 / 1024, least=1.0),
    Kind("cpu", "CPU", "cores", _short, least=0.1),
    Kind("restarts", "Restarts", "", _whole, steps=(2, 4, 10, 20)),
)


def build(
    samples: Iterable[Sample], markers: Iterable[Marker], begin_ms: int, end_ms: int, *, height: int = HEIGHT
) -> Charts:
    """Return the charts of a span of session time, drawn ``WIDTH`` wide and ``height`` high."""
    end_ms = max(end_ms, begin_ms + MIN_SPAN_MS)
    shown = _with_short_names([sample for sample in samples if begin_ms <= sample.ms <= end_ms])
    ranked = _ranked(shown)
    numbers = {pod: number for number, pod in enumerate(sorted(ranked[:MAX_LINES]), 1)}
    place = _Place(begin_ms, end_ms, height)
    return Charts(
        charts=[_chart(index, kind, shown, ranked, numbers, place) for index, kind in enumerate(KINDS)],
        pods=[(number, pod) for pod, number in numbers.items()],
        others=max(0, len(ranked) - MAX_LINES),
        markers=[_placed(marker, place) for marker in markers if begin_ms <= marker.ms <= end_ms],
        ticks=_ticks(begin_ms, end_ms),
        begin_ms=begin_ms,
        end_ms=end_ms,
    )


def _with_short_names(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples with names that need no namespace, where all pods are in one."""
    if len({pod.partition("/")[0] for sample in samples for pod in sample.pods}) != 1:
        return samples
    return [
        Sample(sample.ms, {pod.partition("/")[2]: values for pod, values in sample.pods.items()})
        for sample in samples
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    begin_ms: int
    end_ms: int
    height: int

    def of(self, ms: int) -> float:
        """Return the share of the span that has passed at ``ms``."""
        return (ms - self.begin_ms) / (self.end_ms - self.begin_ms)


def _ranked(samples: Sequence[Sample]) -> list[str]:
    """Return the pods: those with GPUs first, then by the most CPU that each used."""
    best: dict[str, tuple[bool, float]] = {}
    for sample in samples:
        for pod, values in sample.pods.items():
            has_gpu, cpu = best.get(pod, (False, 0.0))
            best[pod] = (has_gpu or values[0] is not None, max(cpu, values[2] or 0.0))
    return sorted(best, key=lambda pod: (not best[pod][0], -best[pod][1], pod))


def _chart(
    index: int,
    kind: Kind,
    samples: Sequence[Sample],
    pods: Sequence[str],
    numbers: Mapping[str, int],
    place: _Place,
) -> Chart:
    series = {pod: found for pod in pods if (found := _series(index, kind, samples, pod))}
    most = max((value for found in series.values() for _, value in found), default=0.0)
    top = kind.top or _nice(max(most, kind.least), kind.steps)
    lines = [Line(pod, numbers[pod], _path(found, top, place)) for pod, found in series.items() if pod in numbers]
    return Chart(
        kind=kind,
        lines=sorted(lines, key=lambda line: line.number),
        labels=[kind.write(top), kind.write(top / 2), "0"],
        summary=_summary(kind, series),
        rows=[_row(kind, pod, [value for _, value in found]) for pod, found in series.items()],
    )


def _series(index: int, kind: Kind, samples: Sequence[Sample], pod: str) -> list[tuple[int, float]]:
    values = ((sample.ms, sample.pods[pod][index]) for sample in samples if pod in sample.pods)
    return [(ms, value * kind.scale) for ms, value in values if value is not None]


def _nice(most: float, steps: Sequence[int]) -> float:
    """Return the end of an axis: one of the steps, times a power of ten."""
    power = 1.0
    if most > steps[0] or 0 < most < steps[0] == 1:  # whole numbers have no axis that ends below the first step
        power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in steps if most <= step * power)


def _path(series: Sequence[tuple[int, float]], top: float, place: _Place) -> str:
    """Return a line as the data of an SVG path, broken where nothing is known. A lone sample is a dot."""
    parts: list[str] = []
    previous: int | None = None
    for ms, value in _thinned(series):
        x, y = place.of(ms) * WIDTH, place.height * (1 - min(value / top, 1.0))
        joined = previous is not None and ms - previous <= max(GAP_MS, 3 * _spacing(series))
        parts.append(f"{'L' if joined else 'M'}{x:.4g} {y:.3g}" + ("" if joined else "h.1"))
        previous = ms
    return "".join(parts)


def _spacing(series: Sequence[tuple[int, float]]) -> float:
    """Return the mean time between two samples."""
    return (series[-1][0] - series[0][0]) / max(len(series) - 1, 1) * max(len(series) / MAX_POINTS, 1)


def _thinned(series: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return at most ``MAX_POINTS`` of a series: of each stretch its lowest and highest, so that no peak is lost."""
    if len(series) <= MAX_POINTS:
        return list(series)
    size = math.ceil(len(series) / (MAX_POINTS // 2))
    found = []
    for start in range(0, len(series), size):
        stretch = series[start : start + size]
        least, most = (choose(stretch, key=lambda point: point[1]) for choose in (min, max))
        found += sorted({least, most})
    return found


def _summary(kind: Kind, series: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Return a chart in a sentence."""
    if not series:
        return "Nothing is known yet."
    unit = f" {kind.unit}" if kind.unit else ""
    pod, at, value = max(
        ((pod, ms, value) for pod, found in series.items() for ms, value in found), key=lambda found: found[2]
    )
    last = series[pod][-1][1]
    if value == 0:
        return f"0{unit} all the time, in {_pods(len(series))}."
    return f"{kind.write(value)}{unit} at most, in {pod} at {_clock(at)}; {kind.write(last)}{unit} there at last."


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _row(kind: Kind, pod: str, values: Sequence[float]) -> Row:
    numbers = (min(values), sum(values) / len(values), max(values), values[-1])
    return Row(pod, *(kind.write(number) for number in numbers))


def _placed(marker: Marker, place: _Place) -> Marker:
    return Marker(marker.ms, marker.word, marker.shape, marker.hue, f"{100 * place.of(marker.ms):.2f}%")


def _ticks(begin_ms: int, end_ms: int) -> list[tuple[str, str]]:
    """Return the time axis: positions and labels in round minutes of the interview."""
    span = (end_ms - begin_ms) / 60_000
    step = next((step for step in _STEPS_MIN if span / step <= MAX_TICKS), _STEPS_MIN[-1])
    first = math.ceil(begin_ms / 60_000 / step) * step
    minutes = range(first, int(end_ms / 60_000) + 1, step)
    placed = [(100 * (minute * 60_000 - begin_ms) / (end_ms - begin_ms), minute) for minute in minutes]
    return [(f"{x:.2f}%" if x else "0", f"{minute} min" if minute else "0") for x, minute in placed if x < 97]


def _clock(ms: int) -> str:
    minutes, seconds = divmod(ms // 1000, 60)
    return f"{minutes:02}:{seconds:02}"
