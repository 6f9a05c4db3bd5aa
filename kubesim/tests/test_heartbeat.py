"""The page of memory by which a cluster's process shows that it lives, and what its watchdog makes of it."""

from types import SimpleNamespace

import pytest

from kubesim.heartbeat import SharedPage
from kubesim.watchdog import MAX_PROGRAMS_BYTES, MAX_RESIDENT_BYTES, PROGRAM_BYTES, Watchdog


@pytest.fixture
def page(tmp_path):
    made = SharedPage.create(tmp_path / "page")
    yield made
    made.close()


def test_a_beat_tells_how_many_programs_run_and_a_note_leaves_that(page):
    page.beat(3)
    page.note(("pods", "team-a/web"))
    assert (page.beats, page.programs, page.noted) == (1, 3, ("pods", "team-a/web"))


@pytest.mark.parametrize(
    ("programs", "more"), [(0, 0), (2, 2 * PROGRAM_BYTES), (64, MAX_PROGRAMS_BYTES), (900, MAX_PROGRAMS_BYTES)]
)
def test_a_cluster_may_hold_more_for_its_programs_but_not_without_end(page, programs, more):
    page.beat(programs)
    watched = Watchdog("one", SimpleNamespace(page=page))
    assert watched.most_bytes() == MAX_RESIDENT_BYTES + more
