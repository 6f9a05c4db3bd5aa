from __future__ import annotations

import pytest

from sessions import events, services
from sessions.models import PreparationPhase


def url(session) -> str:
    return f"/sessions/{session.uuid}/"


@pytest.fixture
def page(client, ada, django_assert_max_num_queries):
    """Return the text of a session's page as ada sees it, within the budget of queries."""

    def get(session, path="") -> str:
        client.force_login(ada)
        client.get(url(session) + path)  # a pack is parsed once for each process
        with django_assert_max_num_queries(12):
            response = client.get(url(session) + path)
        assert response.status_code == 200
        return response.content.decode()

    return get


def test_a_draft_offers_to_prepare(page, draft):
    assert "Prepare</button>" in page(draft)


def test_preparing_shows_each_phase_with_its_last_line(page, draft, ada):
    session = services.prepare(session=draft, actor=ada)
    session.phases.filter(position=0).update(status="running", detail="made cluster gpu-1")
    text = page(session)
    assert "made cluster gpu-1" in text
    assert text.count('<li data-status="') == session.phases.count()


def test_a_failed_phase_shows_its_cause_and_a_retry(page, draft, ada):
    session = services.prepare(session=draft, actor=ada)
    session.phases.filter(position=1).update(status=PreparationPhase.Status.FAILED, error="The host is away.")
    text = page(session)
    assert "The host is away." in text
    assert f"{url(session)}retry/" in text


def test_ready_shows_the_proof_of_a_fair_start(page, ready):
    text = page(ready)
    assert "Proof of a fair start" in text
    assert "12:00:00" in text
    assert f"{url(ready)}start/" in text


def test_live_shows_every_panel(page, live):
    text = page(live)
    for name in ("header", "run", "checks", "pods", "nodes", "events", "rubric", "notes", "hints", "questions"):
        assert f'id="panel-{name}"' in text
    assert 'role="timer"' in text
    assert "Key" in text


def test_ended_offers_reopen_release_and_the_assessment(page, ended):
    text = page(ended)
    for action in ("reopen", "release", "assessment"):
        assert f"{url(ended)}{action}/" in text
    assert "Release the cluster" in text


def test_a_released_session_tells_its_residue(page, ended):
    ended.release_asked_at = ended.released_at = ended.ended_at
    ended.residue = ["Deployment ml-training/left-over"]
    ended.save()
    text = page(ended)
    assert "Deployment ml-training/left-over" in text
    assert "reopen/" not in text


@pytest.mark.parametrize(
    ("outcome", "told"), [("reverted", "Every change was taken back"), ("dropped", "the rest went with the cluster")]
)
def test_a_released_session_tells_whether_it_was_reverted_or_dropped(page, ended, outcome, told):
    ended.release_asked_at = ended.released_at = ended.ended_at
    ended.residue, ended.release_outcome = [], outcome
    ended.save()
    events.append(ended, "session.released", payload={"residue": [], "outcome": outcome})
    text = page(ended)
    assert told in text
    assert ("Every change was taken back" in text) is (outcome == "reverted")
    words = {"reverted": "everything was taken back", "dropped": "what was left went with it"}[outcome]
    assert f"Cluster released: {words}" in text


def test_no_page_carries_an_inline_script_or_style(page, live):
    text = page(live)
    assert " style=" not in text
    assert "<script>" not in text
    assert "onclick" not in text


def test_the_browser_keeps_no_copy(client, ada, live):
    client.force_login(ada)
    assert "no-store" in client.get(url(live))["Cache-Control"]
    assert "no-store" in client.get("/")["Cache-Control"]


def test_live_offers_the_credit_and_workloads(page, live):
    text = page(live)
    assert f"{url(live)}credit/" in text
    assert 'id="panel-workloads"' in text
    assert 'name="from_memory"' in text


def test_the_tab_names_the_state(page, live):
    text = page(live)
    assert "<title>Live: Sam Doe · Faultline</title>" in text
    assert 'id="favicon" href="/static/favicon-live.svg"' in text


def test_it_hides_other_peoples_sessions(client, mallory, live):
    client.force_login(mallory)
    assert client.get(url(live)).status_code == 404


def test_it_asks_a_stranger_to_sign_in(client, live):
    assert client.get(url(live)).status_code == 302


def test_it_rejects_post(client, ada, live):
    client.force_login(ada)
    assert client.post(url(live)).status_code == 405


def test_the_command_that_enters_the_toolbox_is_shown_before_and_during_the_interview(page, ready, ada):
    command = "kubectl exec -it toolbox -n toolbox -- bash"
    assert command not in page(ready)
    ready.environment.parameters = {"toolbox": {"namespace": "toolbox", "image": "x"}}
    ready.environment.save()
    assert command in page(ready)
    ready.environment.parameters["toolbox"]["lacks_gpu"] = True
    ready.environment.save()
    lack = "without a GPU: no node with one has the label"
    assert lack in page(ready)
    live = page(services.start(session=ready, actor=ada), "key/")
    assert command in live
    assert lack in live


def test_the_candidates_rights_are_listed_before_and_during_the_interview(page, draft, ada):
    line = "create, update, patch, delete jobs.batch in ml-training"
    assert line in page(draft)
    session = services.prepare(session=draft, actor=ada)
    assert line in page(session)


def test_live_lists_the_candidates_rights_where_the_brief_is(page, live):
    assert "create, update, patch, delete jobs.batch in ml-training" in page(live, "key/")
