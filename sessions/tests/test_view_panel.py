from __future__ import annotations

import pytest

from sessions import panels, services
from sessions.live import LiveState, PodRow
from sessions.selectors import CANDIDATE_KEY


@pytest.fixture
def candidate(client, live):
    """A browser that has joined the live session, and is signed in as nobody."""
    session = client.session
    session[CANDIDATE_KEY] = str(live.uuid)
    session.save()
    return client


def test_it_returns_every_pushed_panel_as_fragments(client, ada, live):
    client.force_login(ada)
    text = client.get(f"/sessions/{live.uuid}/panels/all/").content.decode()
    for name in panels.names_for(panels.INTERVIEWER):
        assert f'id="panel-{name}"' in text
    assert text.count('hx-swap-oob="true"') == len(panels.names_for(panels.INTERVIEWER))


def test_it_returns_one_panel(client, ada, live):
    client.force_login(ada)
    text = client.get(f"/sessions/{live.uuid}/panels/checks/").content.decode()
    assert 'id="panel-checks"' in text
    assert 'id="panel-header"' not in text


@pytest.mark.parametrize("name", ["nothing", "statement", "rubric", "notes"])
def test_what_is_not_pushed_to_the_role_is_not_found(client, ada, live, name):
    client.force_login(ada)
    assert client.get(f"/sessions/{live.uuid}/panels/{name}/").status_code == 404


def test_the_candidate_gets_the_candidates_panels(candidate, live):
    text = candidate.get(f"/c/{live.uuid}/panels/all/").content.decode()
    assert 'id="panel-statement"' in text


@pytest.mark.parametrize("name", ["header", "checks", "hints", "timeline", "rubric", "questions", "pods", "run"])
def test_the_candidate_gets_nothing_of_the_interviewers(candidate, live, name):
    assert candidate.get(f"/c/{live.uuid}/panels/{name}/").status_code == 404
    with pytest.raises(KeyError):
        panels.render(live, name, panels.CANDIDATE, None)


def test_the_statement_is_empty_before_the_start(ready):
    assert "task" not in panels.render(ready, "statement", panels.CANDIDATE, None).partition(">")[2]


def test_the_statement_carries_released_hints_and_no_others(live, scenario, ada):
    hints = services.release_hint(scenario=scenario, index=0, actor=ada)
    text = panels.render(live, "statement", panels.CANDIDATE, None)
    assert "A hint from your interviewer" in text
    assert hints.text[:20] in text
    assert text.count("A hint from your interviewer") == 1


def test_pods_are_shown_as_text_and_carry_their_number(live, time):
    pod = PodRow("ns", "<b>x</b>", "0/1", "CrashLoopBackOff", 3, "n1", time(), '"><script>', 1, True)
    text = panels.render(live, "pods", panels.INTERVIEWER, LiveState(pods=[pod], synced_at=time()), seq=7)
    assert 'data-seq="7"' in text
    assert "<script>" not in text
    assert "<b>x</b>" not in text
    assert "injected" in text


def test_it_hides_other_peoples_sessions(client, mallory, live):
    client.force_login(mallory)
    assert client.get(f"/sessions/{live.uuid}/panels/all/").status_code == 404


def test_it_hides_the_candidates_panels_from_other_browsers(client, ada, live):
    client.force_login(ada)
    assert client.get(f"/c/{live.uuid}/panels/all/").status_code == 404


def test_it_asks_a_stranger_to_sign_in(client, live):
    assert client.get(f"/sessions/{live.uuid}/panels/all/").status_code == 302


def test_it_rejects_post(client, ada, candidate, live):
    assert candidate.post(f"/c/{live.uuid}/panels/all/").status_code == 405
    client.force_login(ada)
    assert client.post(f"/sessions/{live.uuid}/panels/all/").status_code == 405
