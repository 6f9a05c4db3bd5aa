"""Charts over interview time: lines, gaps, peaks, marks, words and numbers."""

from __future__ import annotations

import re

import pytest

from sessions import charts
from sessions.charts import Marker, Sample

MINUTE = 60_000
TRAIN, API = "ml/train-0", "ml/api-0"


def samples(count: int, pods, every_ms: int = 15_000) -> list[Sample]:
    """Return samples of pods, each a function of the sample's number."""
    return [Sample(n * every_ms, {name: values(n) for name, values in pods.items()}) for n in range(count)]


def built(found, *markers, begin=0, end=None):
    return charts.build(found, markers, begin, end if end is not None else (found[-1].ms if found else 0))


def chart(found, key):
    return next(each for each in found.charts if each.kind.key == key)


def test_a_line_runs_from_the_left_to_the_right_and_from_zero_to_the_top():
    found = built(samples(5, {TRAIN: lambda n: [25.0 * n, 0.0, 0.0, 0]}))
    [line] = chart(found, "gpu").lines
    assert line.path == "M0 100h.1L250 75L500 50L750 25L1000 0"


def test_a_pod_has_one_colour_in_every_chart_and_those_with_gpus_come_first():
    pods = {f"ml/cpu-{n}": lambda i, n=n: [None, None, float(n), 0] for n in range(9)}
    found = built(samples(3, {**pods, TRAIN: lambda n: [1.0, 1.0, 0.01, 0]}))
    assert found.pods == [(1, "cpu-4"), (2, "cpu-5"), (3, "cpu-6"), (4, "cpu-7"), (5, "cpu-8"), (6, "train-0")]
    assert found.others == 4
    assert [(line.pod, line.number) for line in chart(found, "gpu").lines] == [("train-0", 6)]
    assert [line.number for line in chart(found, "cpu").lines] == [1, 2, 3, 4, 5, 6]
    assert len(chart(found, "cpu").rows) == 10, "the table has them all"


def test_names_need_their_namespace_only_where_there_are_several():
    one = samples(2, {TRAIN: lambda n: [1, 1, 1, 0]})
    both = samples(2, {TRAIN: lambda n: [1, 1, 1, 0], "web/api": lambda n: [1, 1, 1, 0]})
    assert built(one).pods == [(1, "train-0")]
    assert built(both).pods == [(1, TRAIN), (2, "web/api")]


def test_time_of_which_nothing_is_known_is_a_gap_and_a_lone_sample_a_dot():
    found = samples(41, {TRAIN: lambda n: [50, 0, 0, 0]})
    kept = [sample for sample in found if sample.ms < 2 * MINUTE or sample.ms in (6 * MINUTE, 10 * MINUTE)]
    [line] = chart(built(kept), "gpu").lines
    assert re.sub(r"[\d. ]+", "", line.path) == "Mh" + 7 * "L" + "MhMh"


def test_no_peak_is_lost_where_samples_are_too_many_to_draw():
    found = samples(2000, {TRAIN: lambda n: [99.0 if n == 777 else 1.0, 0, 0, 0]})
    [line] = chart(built(found), "gpu").lines
    assert len(re.findall("[ML]", line.path)) <= charts.MAX_POINTS
    assert line.path.count("M") == 1, "and the line is whole"
    assert chart(built(found), "gpu").summary == "99 % at most, in train-0 at 194:15; 1 % there at last."


@pytest.mark.parametrize(
    ("most", "steps", "top"),
    [(0, (1, 2, 5, 10), 1), (0.003, (1, 2, 5, 10), 0.005), (3, (1, 2, 5, 10), 5), (1000, (1, 2, 5, 10), 1000)]
    + [(0, (2, 4, 10, 20), 2), (1, (2, 4, 10, 20), 2), (3, (2, 4, 10, 20), 4), (140, (2, 4, 10, 20), 200)],
)
def test_an_axis_ends_at_a_round_number(most, steps, top):
    assert charts._nice(most, steps) == pytest.approx(top)


def test_marks_and_ticks_are_those_of_the_chosen_span():
    found = built(
        samples(81, {TRAIN: lambda n: [1, 1, 1, 0]}),
        *(Marker(0, "Fault", "triangle", "amber"), Marker(15 * MINUTE, "Hint", "bulb", "violet")),
        begin=10 * MINUTE,
    )
    assert [(marker.word, marker.x) for marker in found.markers] == [("Hint", "50.00%")]
    assert found.ticks[:2] == [("0", "10 min"), ("20.00%", "12 min")]
    assert chart(found, "gpu").lines[0].path.startswith("M0 99")


def test_numbers_stand_in_a_table_and_in_a_sentence():
    found = built(samples(5, {TRAIN: lambda n: [20.0 * n, 2048.0 * n, 0.25 * n, n // 2]}))
    assert chart(found, "memory").rows == [charts.Row("train-0", "0", "4", "8", "8")]
    assert chart(found, "memory").summary == "8 GiB at most, in train-0 at 01:00; 8 GiB there at last."
    assert chart(found, "restarts").summary == "2 at most, in train-0 at 01:00; 2 there at last."


def test_what_is_next_to_nothing_looks_like_it():
    found = built(samples(2, {TRAIN: lambda n: [None, None, 0.001, 0]}))
    assert chart(found, "cpu").labels == ["0.1", "0.05", "0"]
    assert chart(found, "cpu").lines[0].path == "M0 99h.1L250 99"


def test_nothing_is_said_of_what_is_not_known():
    found = built(samples(3, {API: lambda n: [None, None, 0, 0]}))
    assert chart(found, "gpu").summary == "Nothing is known yet."
    assert chart(found, "cpu").summary == "0 cores all the time, in 1 pod."
    assert [each.summary for each in built([]).charts] == ["Nothing is known yet."] * 4
