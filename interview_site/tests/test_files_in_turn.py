"""Workers that read a file of tests when it is its turn: nothing else differs from reading all of them first."""

from __future__ import annotations

import pytest

from conftest import ROOT
from interview_site import suite
from interview_site.files_in_turn import told

pytest_plugins = ["pytester"]

FIXTURES = """
import pytest
@pytest.fixture(scope="session")
def once(): print("MADE"); yield; print("GONE")
def pytest_collection_modifyitems(items): items.sort(key=lambda item: item.get_closest_marker("last") is not None)
"""
FIRST = """
import sys, pytest
@pytest.mark.last
def test_b(once): print("RAN b", "test_second" in sys.modules)
@pytest.mark.parametrize("n", [1, 2])
def test_a(once, n): print("RAN a")
def test_other(): pass
"""
LONG = "import pytest\n@pytest.mark.torture\ndef test_long(): assert False"
SECOND = "def test_c(once): print('RAN c')\ndef test_fails(once): assert once"


@pytest.fixture
def play(pytester, monkeypatch):
    """Return a function that runs a suite of three files in a worker."""
    monkeypatch.delenv("TORTURE_ROUNDS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nmarkers =\n  torture: long\n  last: x")
    pytester.makeconftest(FIXTURES)
    pytester.makepyfile(**{"a/test_first": FIRST, "a/test_long": LONG, "b/test_second": SECOND})
    unused = [f"-pno:{name}" for name in ("django", "cacheprovider", "asyncio", "hypothesispytest", "anyio")]
    command = ("-pinterview_site.suite", *unused, "-n1", "--dist=loadfile", "-rA")
    return lambda *args: pytester.runpytest_subprocess(*command, *args)


def test_each_file_is_read_when_it_is_its_turn_and_run_as_ever(play, pytester):
    pytester.makepyfile(**{"b/test_third": "import nowhere"})
    result = play("-k", "not other")
    result.assert_outcomes(passed=4, failed=1, errors=1)
    said = [line for line in result.stdout.lines if line.startswith(("MADE", "RAN"))]
    assert said == ["MADE", "RAN a", "RAN a", "RAN b False", "RAN c"]
    result.stdout.fnmatch_lines(["*[[] 71%[]]", "ERROR b/test_third.py*"])  # five tests, and two files without any


@pytest.mark.parametrize(
    ("dist", "args", "taken"),
    [
        ("loadfile", ["e2e", "faults"], True),
        ("loadfile", ["faults/tests/test_packs.py::test_it"], False),
        ("load", ["e2e"], False),
    ],
)
def test_files_are_taken_in_turn_where_whole_ones_are_handed_out(dist, args, taken):
    assert suite.takes_files_in_turn(dist, args) == taken


STEPS = """
import pytest
@pytest.fixture
def printing(): print("BEFORE"); yield; print("AFTER")
@pytest.fixture
def broken(): raise ValueError("NEVER MADE")
@pytest.fixture
def breaking(): yield; raise ValueError("NOT TAKEN DOWN")
def test_prints(printing): print("DURING")
def test_is_not_made(broken): pass
def test_is_not_taken_down(breaking): pass
def test_skips(printing): pytest.skip("no moon")
def test_fails(breaking): assert False
"""


@pytest.mark.parametrize("option", ["-rA", "--durations=3"])
def test_every_step_that_says_something_is_told(play, pytester, option):
    pytester.makepyfile(**{"a/test_steps": STEPS})
    result = play("-rA", option, "a/test_steps.py")
    result.assert_outcomes(passed=2, failed=1, skipped=1, errors=3)
    for line in ("BEFORE", "DURING", "AFTER", "*NEVER MADE", "*NOT TAKEN DOWN", "*no moon"):
        result.stdout.fnmatch_lines([line])


def test_a_test_is_told_with_the_seconds_of_all_its_steps():
    def step(when, outcome="passed", sections=()):
        values = {"nodeid": "a", "location": ("a", 0, "a"), "keywords": {}, "longrepr": None}
        return pytest.TestReport(**values, when=when, outcome=outcome, sections=sections, duration=1.5)

    good = [step("setup"), step("call"), step("teardown")]
    assert [(report.when, report.duration) for report in told(good)] == [("call", 4.5)]
    bad = [step("setup", "failed"), step("teardown", sections=[("Captured stdout teardown", "x")])]
    assert [(report.when, report.duration) for report in told(bad)] == [("setup", 1.5), ("teardown", 1.5)]
