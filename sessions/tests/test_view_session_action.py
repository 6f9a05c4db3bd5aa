from __future__ import annotations

import pytest

HTMX = {"HX-Request": "true"}


@pytest.fixture
def act(client, ada):
    """Return a function that presses a button of a session as ada."""

    def press(session, action, data=None, headers=None):
        client.force_login(ada)
        return client.post(f"/sessions/{session.uuid}/{action}/", data or {}, headers=headers or {})

    return press


def test_start_without_javascript_leads_back_to_the_page(act, ready):
    response = act(ready, "start")
    ready.refresh_from_db()
    assert response["Location"] == f"/sessions/{ready.uuid}/"
    assert ready.state == "live"


def test_start_with_htmx_loads_the_other_screen(act, ready):
    response = act(ready, "start", headers=HTMX)
    assert response["HX-Redirect"] == f"/sessions/{ready.uuid}/"


def test_pause_and_resume_swap_the_header(act, live):
    text = act(live, "pause", headers=HTMX).content.decode()
    assert 'id="panel-header"' in text
    assert "Resume" in text
    assert "Pause" in act(live, "resume", headers=HTMX).content.decode()


def test_extend_lengthens_the_clock(act, live):
    text = act(live, "extend", {"minutes": "5"}, HTMX).content.decode()
    assert 'data-budget="3900000"' in text


@pytest.mark.parametrize("minutes", ["", "x", "0", "-1", "99999", "5.5", "٥"])
def test_an_odd_extension_is_refused_in_words(act, live, minutes):
    response = act(live, "extend", {"minutes": minutes}, HTMX)
    assert response.status_code == 422
    assert 'id="toasts"' in response.content.decode()


def test_end_reopen_and_release(act, live):
    act(live, "end")
    live.refresh_from_db()
    assert live.state == "ended"
    act(live, "reopen")
    live.refresh_from_db()
    assert live.state == "live"
    act(live, "end")
    act(live, "release")
    live.refresh_from_db()
    assert live.release_asked_at is not None


def test_what_does_not_fit_the_state_is_told(act, draft, client):
    response = act(draft, "start", headers=HTMX)
    assert response.status_code == 409
    assert "This session is draft" in response.content.decode()
    page = client.post(f"/sessions/{draft.uuid}/start/", follow=True).content.decode()
    assert "This session is draft" in page


def test_the_join_link_is_shown_once(act, draft, client):
    text = act(draft, "join-link", headers=HTMX).content.decode()
    assert "/join/" in text
    assert "shown only now" in text
    assert "/join/" not in client.get(f"/sessions/{draft.uuid}/").content.decode()


def test_the_join_link_needs_no_javascript(act, draft):
    response = act(draft, "join-link")
    assert response.status_code == 200
    assert "/join/" in response.content.decode()


def test_a_join_link_of_an_ended_session_is_refused(act, ended):
    response = act(ended, "join-link", headers=HTMX)
    assert response.status_code == 409


def test_an_unknown_action_is_not_found(act, live):
    assert act(live, "explode").status_code == 404


def test_it_hides_other_peoples_sessions(client, mallory, live):
    client.force_login(mallory)
    for action in ("end", "join-link"):
        assert client.post(f"/sessions/{live.uuid}/{action}/").status_code == 404
    live.refresh_from_db()
    assert live.state == "live"


def test_it_asks_a_stranger_to_sign_in(client, live):
    assert client.post(f"/sessions/{live.uuid}/end/").status_code == 302
    live.refresh_from_db()
    assert live.state == "live"


def test_it_rejects_get(client, ada, live):
    client.force_login(ada)
    assert client.get(f"/sessions/{live.uuid}/end/").status_code == 405
    assert client.get(f"/sessions/{live.uuid}/join-link/").status_code == 405


def test_quiet_time_begins_and_ends_from_the_header(act, live):
    text = act(live, "quiet", headers=HTMX).content.decode()
    assert "End quiet time" in text
    assert "data-until" in text
    assert "Quiet time, 5 min" in act(live, "end-quiet", headers=HTMX).content.decode()


def test_lost_time_is_credited_with_its_reason(act, live):
    response = act(live, "credit", {"minutes": "4", "reason": "The cluster was away"}, HTMX)
    assert response["HX-Trigger"] == '{"faultline:done": {}}'
    entry = live.clock_entries.get(kind="credit")
    assert (entry.seconds, entry.reason) == (240, "The cluster was away")
    assert live.events.filter(kind="session.credited").count() == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"minutes": "", "reason": "x"}, "Say how many minutes."),
        ({"minutes": "4.5", "reason": "x"}, "Give whole minutes."),
        ({"minutes": "0", "reason": "x"}, "greater than or equal to 1"),
        ({"minutes": "121", "reason": "x"}, "less than or equal to 120"),
        ({"minutes": "5", "reason": " "}, "Say what failed"),
    ],
)
def test_an_odd_credit_is_refused_at_its_field(act, live, data, words):
    response = act(live, "credit", data, HTMX)
    assert response.status_code == 422
    assert words in response.content.decode()
    assert not live.clock_entries.filter(kind="credit").exists()


def test_a_credit_without_javascript_leads_back(act, live, ended):
    assert act(live, "credit", {"minutes": "4", "reason": "x"})["Location"] == f"/sessions/{live.uuid}/"


def test_no_credit_after_the_end(act, ended):
    response = act(ended, "credit", {"minutes": "4", "reason": "x"}, HTMX)
    assert response.status_code == 422
    assert "must be live or paused" in response.content.decode()


def test_a_stranger_credits_nothing(client, mallory, live):
    client.force_login(mallory)
    assert client.post(f"/sessions/{live.uuid}/credit/", {"minutes": "4", "reason": "x"}).status_code == 404
