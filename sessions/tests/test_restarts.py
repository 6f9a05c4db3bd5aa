"""A cluster that was started again is told to the interviewers, and to nobody else."""

from __future__ import annotations

import pytest

from faults.practice import Restarts
from sessions import panels, services
from sessions.observer import outages
from sessions.tests.test_view_panel import draw

HUNG = "deployments default/web"


@pytest.fixture
def restarted(live, time):
    """A session whose cluster did not answer, and came back without what it hung over."""
    services.begin_outage(session_id=live.pk, at=time(), reason=outages.UNANSWERED)
    services.end_outage(session_id=live.pk, at=time.advance(12))
    assert services.note_restarts(session_id=live.pk, restarts=Restarts(2, (HUNG,)))
    live.refresh_from_db()
    return live


def test_the_interviewers_see_what_was_taken_out(restarted):
    told = f"without {HUNG}, over which it hung"
    assert told in draw(restarted, "link")
    assert f"Cluster started again: {told}" in draw(restarted, "timeline")


def test_in_quiet_time_the_card_keeps_still(restarted, ada):
    services.begin_quiet(session=restarted, actor=ada)
    assert "started again" not in draw(restarted, "link")


@pytest.mark.parametrize("name", ["statement", "clock", "connection", "watchers"])
def test_the_candidate_sees_nothing_of_it(restarted, name):
    text = draw(restarted, name, role=panels.CANDIDATE)
    assert "started again" not in text
    assert HUNG not in text


def test_each_restart_is_told_once(restarted):
    assert not services.note_restarts(session_id=restarted.pk, restarts=Restarts(2, (HUNG,)))
    assert services.note_restarts(session_id=restarted.pk, restarts=Restarts(3, (HUNG,)))
    newest = restarted.events.filter(kind="cluster.restarted").order_by("-seq").first()
    assert newest.payload["reason"] == "", "what was told before is not told again"


def test_a_restart_too_short_for_an_outage_is_told_all_the_same(live):
    """The card tells of it however long the cluster was silent; only the outage's ledger may be empty."""
    services.note_restarts(session_id=live.pk, restarts=Restarts(1, ()))
    live.refresh_from_db()
    assert "started again" in draw(live, "link")
