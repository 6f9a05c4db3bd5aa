"""Comparisons in depth are marked as such, and the table of them names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interview_site import comparisons

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
RULES = {"max_cases": {"test_": 3, "test_b.py": 1, "test_b.py::test_many": 2}, "played": {"test_c.py": ["test_kept"]}}
TABLE = """
import pytest

@pytest.mark.parametrize("number", range(10))
def test_many(number): pass

def test_kept(): pass

@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.torture), 1, 2])
def test_proof(number): pass
"""


@pytest.fixture
def played(pytester):
    """Return the tests that are no comparison in a file of this name."""

    def play(name):
        scope = "asyncio_default_fixture_loop_scope = function"
        pytester.makeini(f"[pytest]\n{scope}\nmarkers =\n torture: long\n comparison: deep")
        pytester.makepyfile(**{name: TABLE})
        items = pytester.inline_genitems("-p", "no:django", "-p", "no:xdist")[0]
        comparisons.mark(items, RULES)
        return [item.name for item in items if not item.get_closest_marker(comparisons.MARKER)]

    return play


@pytest.mark.parametrize(
    ("name", "many", "others"),
    [
        ("test_a", ["test_many[0]", "test_many[3]", "test_many[6]"], ["test_kept", *"012"]),
        ("test_b", ["test_many[0]", "test_many[5]"], ["test_kept", *"01"]),
        ("test_c", [], ["test_kept", "0"]),
    ],
)
def test_a_file_plays_what_its_longest_rule_leaves_it_and_long_proofs_are_left_alone(played, name, many, others):
    wanted = [f"test_proof[{each}]" if each.isdigit() else each for each in others]
    assert played(name) == [*many, *wanted]


@pytest.mark.parametrize(("count", "kept"), [(None, "abcdefg"), (9, "abcdefg"), (3, "ace"), (1, "a")])
def test_cases_are_taken_from_all_over_a_table(count, kept):
    assert "".join(comparisons.spread("abcdefg", count)) == kept


def test_every_rule_names_what_there_is():
    rules = comparisons.table()
    for file, tests in rules["played"].items():
        text = (ROOT / file).read_text("utf-8")
        assert [test for test in tests if not re.search(rf"def {test}\(", text)] == [], file
    for name in rules["max_cases"]:
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert not test or f"def {test}(" in (ROOT / file).read_text("utf-8")
