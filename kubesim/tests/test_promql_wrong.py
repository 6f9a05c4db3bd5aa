"""Wrong queries: the kind of the error, and the words of what does parse, are those of a real Prometheus."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim import data
from kubesim.metrics.api import Prometheus as Ours
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.values import QueryError
from kubesim.tests.prometheus import Memory, answering, asked
from kubesim.tests.test_promql import AT, every_series

QUERIES = data.read(Path(__file__).with_name("promql_wrong.yaml"))
LATER = {'gpu_util{"gpu"="0"}', 'sum by ("node") (gpu_util)', "rate(gpu_util[5])", "gpu_util offset 5", "5m"}
"""What Prometheus 3 takes and Debian's 2.42 does not: names in quotes, durations that are numbers."""
PARSING = "parse error: "
DRAWN_BY_LOT = ("found duplicate series for the match group", "multiple matches for labels")


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(every_series())


@pytest.fixture(scope="module")
def real(tmp_path_factory, memory):
    with answering(tmp_path_factory.mktemp("prometheus"), memory.series) as server:
        yield server


@pytest.mark.parametrize("query", asked(query for query in QUERIES if query not in LATER))
def test_a_wrong_query_is_refused_as_prometheus_refuses_it(memory, real, query):
    theirs = real.get("query", query=query, time=str(AT))
    _, ours = Ours(database=memory).answer("query", {"query": [query], "time": [str(AT)]}, AT)
    assert (ours["status"], ours.get("errorType")) == (theirs["status"], theirs.get("errorType"))
    expected, found = theirs.get("error", ""), ours.get("error", "")
    if expected.startswith(DRAWN_BY_LOT):
        assert found.startswith(expected.partition(": [")[0])
    elif PARSING in expected:
        assert PARSING in found
    else:
        assert found == expected


DEEP = ("(" * 200 + "1", "-" * 300 + "x y", "a{" * 100, "sum(" * 90, "2^" * 300, "a[" * 50)


@pytest.mark.parametrize("query", DEEP)
def test_what_is_nested_too_deeply_is_refused_all_the_same(query):
    with pytest.raises(QueryError, match="parse error: "):
        engine.parse(query)


PIECES = """sum rate ( ) { } [ ] 5m 1 up = ! ~ "a" ' ` \\ : , @ by on offset bool and - ^ # é . e 0x start nan"""


@given(st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "\x00"]), max_size=12).map("".join))
def test_whatever_is_typed_is_parsed_or_refused(query):
    with suppress(QueryError):
        engine.parse(query)
