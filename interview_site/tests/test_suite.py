"""The order of the suite, the long proofs, and the summary of what was skipped."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest

from conftest import ROOT
from interview_site import suite

pytest_plugins = ["pytester"]


def item(nodeid):
    return SimpleNamespace(nodeid=nodeid)


def report(nodeid, reason):
    return SimpleNamespace(nodeid=nodeid, longrepr=("/x/y.py", 7, f"Skipped: {reason}"), duration=0.1)


def test_the_longest_files_come_first_and_a_file_stays_together():
    items = [item(name) for name in ("a.py::1", "a.py::2", "b.py::1", "c.py::1", "c.py::2", "d.py::1")]
    found = [each.nodeid for each in suite.ordered(items, {"c.py": 30.0, "b.py": 5.0})]
    assert found == ["c.py::1", "c.py::2", "b.py::1", "a.py::1", "a.py::2", "d.py::1"]


@pytest.mark.parametrize(
    ("named", "worker", "found"),
    [("/a/{worker}/b", "gw1", "/a/gw1/b"), ("/a/{worker}/b", "", "/a/{worker}/b"), ("/a/b", "gw1", "/a/b")],
)
def test_each_worker_has_a_control_plane_of_its_own_where_there_are_several(monkeypatch, named, worker, found):
    """The process that starts the workers leaves the name as it is, for they inherit it."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    monkeypatch.setenv("CONTRACT_KUBECONFIG", named)
    suite.pytest_load_initial_conftests()
    assert os.environ["CONTRACT_KUBECONFIG"] == found


def test_each_reason_to_skip_is_one_line_with_its_count():
    reports = [report(f"a.py::{n}", "no prometheus") for n in range(1058)]
    reports += [report("a.py::x", "no bash\n  5.2"), report("b.py::x", "no bash 5.2"), report("b.py::y", "")]
    assert suite.reasons(reports) == [
        " 1058 no prometheus (a.py)",
        "    2 no bash 5.2 (2 files)",
        "    1 no reason given (b.py)",
    ]


def test_the_stored_files_are_there_and_take_their_time():
    seconds = suite.stored()
    assert [name for name in seconds if not (ROOT / name).exists()] == []
    assert list(seconds.values()) == sorted(seconds.values(), reverse=True)


def test_no_garbage_is_looked_for_among_what_was_collected():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000  # Django alone makes more


def test_durations_are_added_up_by_file(monkeypatch, tmp_path):
    monkeypatch.setattr(suite, "DURATIONS", tmp_path / "durations.json")
    (tmp_path / "durations.json").write_text('{"old.py": 9.0, "a.py": 50.0}')
    reports = [SimpleNamespace(nodeid=f"a.py::{n}", duration=1.2) for n in range(3)]
    suite.store(
        {"passed": reports, "": [SimpleNamespace(nodeid="quick.py::x", duration=0.2)], "warnings": [object()]}
    )
    assert json.loads((tmp_path / "durations.json").read_text()) == {"old.py": 9.0, "a.py": 3.6}


@pytest.mark.parametrize(
    ("rounds", "chosen", "passed", "deselected"),
    [("", "", 1, 2), ("25", "", 3, 0), ("", "comparison", 1, 3), ("", "not comparison", 1, 2)],
)
def test_long_proofs_and_comparisons_run_where_they_are_asked_for(
    pytester, monkeypatch, rounds, chosen, passed, deselected
):
    for name in suite.LONG:
        monkeypatch.delenv(name, raising=False)
    if rounds:
        monkeypatch.setenv("TORTURE_ROUNDS", rounds)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n torture: long\n comparison: deep"
    )
    pytester.makepyfile(
        "import pytest\ndef test_a(): pass\n@pytest.mark.torture\ndef test_b(): pass\n"
        "@pytest.mark.comparison\ndef test_c(): pass\n@pytest.mark.skip(reason='no moon')\ndef test_d(): pass\n"
    )
    plugins = ("-p", "interview_site.suite", "-p", "no:django", "-p", "no:xdist")
    result = pytester.runpytest_inprocess(*plugins, "-m", chosen)
    skipped = 0 if chosen == "comparison" else 1
    result.assert_outcomes(passed=passed, skipped=skipped, deselected=deselected)
    if skipped:
        result.stdout.fnmatch_lines(["*1 no moon (*"])


def test_make_torture_runs_every_file_with_a_long_proof():
    done = subprocess.run(["make", "-n", "-o", "setup-dev", "torture"], cwd=ROOT, capture_output=True, text=True)
    marked = [
        str(path.relative_to(ROOT))
        for folder in ("e2e", "sessions", "faults", "kubesim", "interview_site", "native", "torture")
        for path in (ROOT / folder).rglob("test_*.py")
        if re.search(
            r"TORTURE_ROUNDS|mark\.torture|settings\(\)\.max_examples|(?m:^def test.*\Wkubectl\W)", path.read_text()
        )
    ]
    assert marked
    assert [name for name in marked if name not in done.stdout] == []
    assert "-m comparison e2e faults interview_site kubesim native torture" in done.stdout


def test_make_test_takes_whole_files_in_the_order_of_the_suite():
    done = subprocess.run(["make", "-n", "-o", "setup-dev", "test"], cwd=ROOT, capture_output=True, text=True)
    assert "--dist loadfile --no-loadscope-reorder" in done.stdout
