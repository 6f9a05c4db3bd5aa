"""PromQL: our answers beside those of a real Prometheus over the same samples, and what is refused."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubesim import data
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.values import NAME, QueryError, Sample, Window, number
from kubesim.tests.prometheus import Memory, Stored, answering, asked

START, END = 1_700_000_003.0, 1_700_001_203.0
AT = 1_700_001_097.0
QUERIES = data.read(Path(__file__).with_name("promql_cases.yaml"))


def samples(value, every=15.0, start=START, end=END):
    count = int((end - start) / every) + 1
    return [(start + number * every, float(value(number))) for number in range(count)]


def every_series() -> list[Stored]:
    chance = random.Random(7)
    found: list[Stored] = []
    for node in ("a", "b"):
        found.append(
            Stored({NAME: "node_info", "node": node, "zone": "z1" if node == "a" else "z2"}, samples(lambda n: 1))
        )
        for gpu in ("0", "1", "2"):
            labels = {"gpu": gpu, "node": node, "model": "H100"}
            base = chance.uniform(5, 70)
            values = [base + chance.uniform(0, 30) for _ in range(200)]
            found.append(Stored({NAME: "gpu_util", **labels}, samples(lambda n, values=values: round(values[n], 3))))
            drop = 40 if gpu == "1" else 1000
            energy = samples(lambda n, b=base, d=drop: (n % d) * b * 15 + (n % 3))
            found.append(Stored({NAME: "energy_total", **labels}, energy))
            at = {"0": 20, "1": 70}.get(gpu, 1000)
            xid = samples(lambda n, at=at: 79 if n >= at else 0)
            found.append(Stored({NAME: "gpu_xid", "gpu": gpu, "node": node}, xid))
    for bound, share in (("0.1", 10), ("0.5", 35), ("1", 80), ("+Inf", 90)):
        found.append(Stored({NAME: "latency_bucket", "le": bound}, samples(lambda n, s=share: n * s)))
    found.append(Stored({NAME: "gpu_mostly", "gpu": "9"}, samples(lambda n: n, end=AT - 400)))
    return [*found, *odd(), *buckets()]


ODD = (math.nan, math.inf, -math.inf, 0.0, -0.5, 2.5, -2.5, 1e-9, 3e9)


def odd() -> Iterator[Stored]:
    """Yield values that are hard to calculate with, and a counter that is seen now and then."""
    for kind, value in enumerate(ODD):
        steps = samples(lambda n, v=value: v + (n % 3) * 0.5 if v and math.isfinite(v) else v)
        yield Stored({NAME: "odd_value", "kind": str(kind)}, steps)
    mixed = (1.0, math.nan, 3.0, -math.inf, 5.0)
    yield Stored({NAME: "odd_value", "kind": "mixed"}, samples(lambda n: mixed[n % 5]))
    every = enumerate(samples(lambda n: (n * 7) % 200))
    seen = [point for number, point in every if number % 7 not in (2, 3) and not 30 < number < 50]
    yield Stored({NAME: "gappy_total", "gpu": "0"}, seen)


def buckets() -> Iterator[Stored]:
    """Yield histograms: of two paths, one whose buckets do not rise, and one of negative values."""
    for path, factor in (("/a", 1), ("/b", 3)):
        for bound, share in (("0.1", 10), ("0.5", 35), ("1", 80), ("+Inf", 90)):
            counted = samples(lambda n, s=share * factor: (n * s) % 5000)
            yield Stored({NAME: "request_bucket", "le": bound, "path": path}, counted)
    for bound, share in (("0.1", 50), ("0.5", 35), ("1", 80), ("+Inf", 90)):
        yield Stored({NAME: "broken_bucket", "le": bound}, samples(lambda n, s=share: n * s))
    for bound, share in (("-2", 1), ("-1", 35), ("0", 40), ("1", 80), ("+Inf", 90)):
        yield Stored({NAME: "negative_bucket", "le": bound}, samples(lambda n, s=share: n * s))


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(every_series())


@pytest.fixture(scope="module")
def real(tmp_path_factory, memory):
    with answering(tmp_path_factory.mktemp("prometheus"), memory.series) as server:
        yield server


def shaped(value) -> list[tuple[object, list[tuple[float, float]]]]:
    """Return any answer as sorted (labels, points)."""
    if isinstance(value, (float, str)):
        return [("", [(0.0, float(value) if isinstance(value, float) else math.nan)])]
    found = [(sorted(i.labels.items()), i.points if isinstance(i, Window) else [(0.0, i.value)]) for i in value]
    return sorted(found, key=lambda entry: str(entry[0]))


def theirs(answer) -> list[tuple[object, list[tuple[float, float]]]]:
    data = answer["data"]
    if data["resultType"] in ("scalar", "string"):
        text = data["result"][1]
        return [("", [(0.0, float(text) if data["resultType"] == "scalar" else math.nan)])]
    found = [(sorted(item["metric"].items()), list(points(item))) for item in data["result"]]
    return sorted(found, key=lambda entry: str(entry[0]))


def points(item) -> Iterator[tuple[float, float]]:
    if "value" in item:
        yield 0.0, float(item["value"][1])
    yield from ((at, float(text)) for at, text in item.get("values", ()))


def answered(call, *arguments) -> tuple[object, str]:
    """Return our answer, or the kind of our error."""
    try:
        return call(*arguments), ""
    except QueryError as error:
        return None, error.kind


def same(ours, others) -> bool:
    if [entry[0] for entry in ours] != [entry[0] for entry in others]:
        return False
    if [len(points) for _, points in ours] != [len(points) for _, points in others]:
        return False
    pairs = [(a, b) for (_, one), (_, two) in zip(ours, others, strict=True) for a, b in zip(one, two, strict=True)]
    return all(
        a[0] == pytest.approx(b[0], abs=0.002) and (a[1] == pytest.approx(b[1], rel=1e-9, abs=1e-9, nan_ok=True))
        for a, b in pairs
    )


@pytest.mark.parametrize("query", asked(QUERIES))
def test_an_instant_query_is_answered_as_prometheus_does(memory, real, query):
    answer = real.get("query", query=query, time=str(AT))
    ours, error = answered(engine.instant, memory, query, AT)
    assert answer.get("errorType", "") == error, answer
    assert error or same(shaped(ours), theirs(answer)), (shaped(ours)[:3], theirs(answer)[:3])


@pytest.mark.parametrize("query", asked(query for query in QUERIES if query not in ('"text"', "gpu_util[1m]")))
def test_a_range_query_is_answered_as_prometheus_does(memory, real, query):
    start, end, step = AT - 600, AT + 400, 50
    answer = real.get("query_range", query=query, start=str(start), end=str(end), step=str(step))
    ours, error = answered(engine.ranged, memory, query, start, end, step)
    assert answer.get("errorType", "") == error, answer
    assert error or same(shaped(ours), theirs(answer)), (shaped(ours)[:3], theirs(answer)[:3])


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("gpu_util{", "bad_data"),
        ("nosuchfunction(gpu_util)", "bad_data"),
        ("rate(gpu_util)", "bad_data"),
        ("", "bad_data"),
        ("gpu_util * on (node) node_info", "execution"),
        ('label_replace(gpu_util, "a", "$1", "node", "(")', "execution"),
    ],
)
def test_a_query_that_cannot_be_answered_says_why(memory, query, kind):
    with pytest.raises(QueryError) as refused:
        engine.instant(memory, query, AT)
    assert refused.value.kind == kind
    assert str(refused.value)


HURTFUL = (
    "(" * 150 + "1" + ")" * 150,
    "-" * 500_000 + "1",
    "1" + " or 1" * 5000,
    "1" + " + 1" * 5000,
    "gpu_util[11000m:1s]",
    "count_over_time(gpu_util[1000000h:1m])",
)


@pytest.mark.parametrize("query", HURTFUL, ids=lambda query: query[:10])
def test_a_query_made_to_hurt_is_refused(memory, query):
    assert answered(engine.instant, memory, query, AT) == (None, "bad_data")


@pytest.mark.parametrize("at", [-5, -1e30, -1e11, 1e12, 0])
def test_a_time_beyond_all_calendars_finds_nothing(memory, at):
    assert answered(engine.instant, memory, "gpu_util", at) == ([], "")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("gpu_util @ 1700001000", "@ modifier"),
        ("max_over_time(gpu_util[5m:1m] @ end())", "@ modifier"),
        ('count_values("value", gpu_util)', "count_values"),
        ('label_join(gpu_util, "both", "-", "node", "gpu")', "label_join"),
        ("log10(gpu_util)", "log10"),
        ("hour()", "hour"),
        ("clamp_max(gpu_util, 20)", "clamp_max"),
        ("deriv(gpu_util[5m])", "deriv"),
        ("timestamp(gpu_util)", "timestamp"),
        ("stdvar(gpu_util)", "stdvar"),
    ],
)
def test_what_is_left_out_is_refused_by_its_name(memory, query, word):
    with pytest.raises(QueryError, match=f"{word} is not supported here"):
        engine.instant(memory, query, AT)


def test_no_pattern_takes_long(memory):
    assert answered(engine.instant, memory, '{__name__=~"(a+)+$"}', AT) == ([], "")


def test_a_range_of_too_many_steps_is_refused(memory):
    with pytest.raises(QueryError, match="exceeded maximum resolution of 11,000 points"):
        engine.ranged(memory, "gpu_util", 0, 1e9, 1)
    with pytest.raises(QueryError, match="zero or negative query resolution step"):
        engine.ranged(memory, "gpu_util", 0, 10, 0)
    with pytest.raises(QueryError, match="end timestamp must not be before start time"):
        engine.ranged(memory, "gpu_util", 10, 0, 1)


def test_sums_and_names_stand_without_a_prometheus_beside_them(memory):
    assert engine.instant(memory, "count(gpu_util)", AT) == [Sample({}, 6.0)]
    assert engine.instant(memory, "1 + 2 * 3", AT) == 7.0
    rate = engine.instant(memory, 'rate(energy_total{gpu="0",node="a"}[2m])', AT)
    assert NAME not in rate[0].labels
    assert engine.instant(memory, "gpu_mostly", AT) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.1, "0.1"), (1e21, "1000000000000000000000"), (1e-7, "0.0000001"), (math.nan, "NaN"),
     (math.inf, "+Inf"), (-math.inf, "-Inf"), (-0.0, "-0"), (123456789.125, "123456789.125")],
)  # fmt: skip
def test_a_number_is_written_without_an_exponent(value, text):
    assert number(value) == text
