"""Wrong queries: the kind of the error and its words, with the place, are those of a real Prometheus beside us."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubesim.metrics.api import Prometheus as Ours
from kubesim.metrics.promql import engine
from kubesim.metrics.promql.complaints import complaint
from kubesim.metrics.promql.values import QueryError
from kubesim.tests.prometheus import Memory, answering
from kubesim.tests.test_promql import AT, data

QUERIES = yaml.safe_load(Path(__file__).with_name("promql_wrong.yaml").read_text(encoding="utf-8"))
LATER = {'gpu_util{"gpu"="0"}', 'sum by ("node") (gpu_util)', "rate(gpu_util[5])", "gpu_util offset 5", "5m"}
"""What Prometheus 3 takes and Debian's 2.42 does not: names in quotes, durations that are numbers."""
IN_OTHER_WORDS = {
    "gpu_util @ 1e30",  # the number, which the parser has already cut down
    "sum by (node) (rate(gpu_util[5m]) / )",  # "in aggregation", of a grammar's state
}
"""Of the same kind and at the same place, but with other words."""
DRAWN_BY_LOT = ("found duplicate series for the match group", "multiple matches for labels")


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory(data())


@pytest.fixture(scope="module")
def real(tmp_path_factory, memory):
    with answering(tmp_path_factory.mktemp("prometheus"), memory.series) as server:
        yield server


@pytest.mark.parametrize("query", [query for query in QUERIES if query not in LATER])
def test_a_wrong_query_is_refused_as_prometheus_refuses_it(memory, real, query):
    theirs = real.get("query", query=query, time=str(AT))
    _, ours = Ours(database=memory).answer("query", {"query": [query], "time": [str(AT)]}, AT)
    assert (ours["status"], ours.get("errorType")) == (theirs["status"], theirs.get("errorType"))
    expected, found = theirs.get("error", ""), ours.get("error", "")
    if expected.startswith(DRAWN_BY_LOT):
        assert found.startswith(expected.partition(": [")[0])
    elif query not in IN_OTHER_WORDS:
        assert found == expected


def test_a_place_is_told_by_line_and_column():
    with pytest.raises(QueryError, match="2:3: parse error: unexpected character: '}'$"):
        engine.parse("up +\n  }")


DEEP = ("(" * 200 + "1", "-" * 300 + "x y", "a{" * 100, "sum(" * 90, "2^" * 300, "a[" * 50)


@pytest.mark.parametrize("query", DEEP)
def test_what_is_nested_too_deeply_is_refused_all_the_same(query):
    with pytest.raises(QueryError, match="parse error: "):
        engine.parse(query)


PIECES = """sum rate ( ) { } [ ] 5m 1 up = ! ~ "a" ' ` \\ : , @ by on offset bool and - ^ # é . e 0x start nan"""


@given(st.lists(st.sampled_from([*PIECES.split(), " ", "\n", "\x00"]), max_size=12).map("".join))
def test_whatever_is_typed_has_a_complaint_with_a_place(query):
    assert re.fullmatch(r"\d+:\d+: parse error: .+", complaint(query, "words"), re.DOTALL)
    with suppress(QueryError):
        engine.parse(query)


def test_words_that_cannot_be_found_again_stand_at_the_beginning():
    assert complaint("up", "something else") == "1:1: parse error: something else"
