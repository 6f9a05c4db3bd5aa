from __future__ import annotations

import gzip

import pytest

from sessions import clock, events, frames, panels, presence, services
from sessions import live as live_frames
from sessions.live import LiveState, PodRow, WorkloadRow
from sessions.models import InterviewSession
from sessions.presence import Connection
from sessions.selectors import CANDIDATE_KEY


@pytest.fixture
def candidate(client, live):
    """A browser that has joined the live session, and is signed in as nobody."""
    session = client.session
    session[CANDIDATE_KEY] = str(live.uuid)
    session.save()
    return client


def test_without_redis_a_page_keeps_what_it_shows_of_the_cluster(client, ada, live, settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    client.force_login(ada)
    text = client.get(f"/sessions/{live.uuid}/panels/all/").content.decode()
    assert 'id="panel-checks"' in text
    assert "Waiting for the cluster" not in text
    services.begin_quiet(session=live, actor=ada)
    assert text.count("uiet time") < client.get(f"/sessions/{live.uuid}/panels/all/").content.decode().count(
        "uiet time"
    )


def test_it_returns_every_pushed_panel_as_fragments(client, ada, live, settings, redis_url):
    settings.REDIS_URL = redis_url
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


def test_pods_are_shown_as_text(live, time):
    pod = PodRow("ns", "<b>x</b>", "0/1", "CrashLoopBackOff", 3, "n1", time(), '"><script>', 1, True)
    text = panels.render(live, "pods", panels.INTERVIEWER, LiveState(pods=[pod], synced_at=time()))
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


# Quiet time, people, and workloads


@pytest.fixture
def state(time) -> LiveState:
    """A cluster with one of everything that a name can be recognised by."""
    pod = PodRow("ml", "a-training-coordinator-8dfhwmbjfq-m6pb4", "1/1", "Running", 0, "n1", time(), "", 0, False)
    return LiveState(
        pods=[pod], workloads=[WorkloadRow("ml", "Job", "nightly", "0/1 completions", time())], synced_at=time()
    )


def draw(session, name, state=None, role=panels.INTERVIEWER) -> str:
    session.refresh_from_db()
    return panels.render(session, name, role, state)


def test_workloads_tell_how_far_they_have_come(live, state):
    text = draw(live, "workloads", state)
    assert "nightly" in text
    assert "0/1 completions" in text


def test_a_long_name_keeps_the_end_that_tells_replicas_apart(live, state):
    assert "<span>wmbjfq-m6pb4</span>" in draw(live, "pods", state)


@pytest.mark.parametrize("name", ["checks", "pods", "workloads", "nodes", "events"])
def test_in_quiet_time_the_interviewers_see_nothing_of_the_cluster(live, ada, state, time, name):
    services.begin_quiet(session=live, actor=ada)
    text = draw(live, name, state)
    assert "uiet time" in text
    assert "m6pb4" not in text
    assert "nightly" not in text
    time.advance(300)
    assert "uiet time" not in draw(live, name, state)


def test_in_quiet_time_the_candidate_is_told_until_when(live, ada):
    services.begin_quiet(session=live, actor=ada)
    text = draw(live, "watchers", role=panels.CANDIDATE)
    assert "Quiet time" in text
    assert "until 12:05" in text


def test_in_quiet_time_the_time_line_keeps_still_about_the_candidate(live, ada):
    services.begin_quiet(session=live, actor=ada)
    events.append(live, "candidate.connected", actor=events.CANDIDATE, payload={})
    assert "First kubectl request" not in draw(live, "timeline")
    services.end_quiet(session=live, actor=ada)
    assert "First kubectl request" in draw(live, "timeline")


def test_each_mark_of_the_time_line_leads_to_its_entry(live, ada):
    services.credit(session=live, seconds=240, reason="The cluster was away", actor=ada)
    text = draw(live, "timeline")
    seq = live.events.get(kind="session.credited").seq
    assert f'data-moment="moment-{seq}"' in text
    assert f'id="moment-{seq}"' in text
    assert "Time credited: 4 min: The cluster was away" in text


def test_the_candidates_card_follows_from_invitation_to_connection(ready, ada):
    assert "Not invited yet" in draw(ready, "link")
    token = services.issue_join_link(session=ready, actor=ada).rstrip("/").rpartition("/")[2]
    assert "Not joined yet" in draw(ready, "link")
    services.consume_join_token(token)
    text = draw(ready, "link")
    assert "In the waiting room" in text
    assert 'data-invited="no"' in text
    services.start(session=ready, actor=ada)
    assert "On the page." in draw(ready, "link")


def test_a_candidate_who_has_closed_the_page_is_away_from_it(settings, redis_url, live, time):
    settings.REDIS_URL = redis_url
    services.consume_join_token(
        services.issue_join_link(session=live, actor=live.owner).rstrip("/").rpartition("/")[2]
    )
    presence.seen(str(live.uuid), None, "tab", time())
    assert "On the page." in draw(live, "link")
    presence.tell([], [Connection(str(live.uuid), None, "tab")], time())
    text = draw(live, "link")
    assert "Away from the page." in text
    assert "On the page." not in text


def test_who_watches_is_who_has_the_page_open(settings, redis_url, live, ada, grace, root, time):
    settings.REDIS_URL = redis_url
    uuid = str(live.uuid)
    assert "Nobody is watching right now. ada, grace may" in draw(live, "watchers", role=panels.CANDIDATE)
    presence.seen(uuid, ada.pk, "tab", time())
    presence.seen(uuid, root.pk, "tab", time())
    text = draw(live, "watchers", role=panels.CANDIDATE)
    assert "<b>ada, root</b> are watching now" in text
    presence.tell([], [Connection(uuid, root.pk, "tab")], time())
    assert "<b>ada</b> is watching now" in draw(live, "watchers", role=panels.CANDIDATE)
    time.advance(presence.KEEP_S + 1)
    assert "Nobody is watching" in draw(live, "watchers", role=panels.CANDIDATE)


def test_where_nobody_can_tell_everybody_is_named(settings, tmp_path, live):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    assert "ada, grace can see the cluster" in draw(live, "watchers", role=panels.CANDIDATE)


def test_a_silent_cluster_offers_the_credit(live, state, time):
    state.stale_since = time()
    text = draw(live, "pods", state)
    assert "has not answered since 12:00:00" in text
    assert 'data-open="credit-dialog"' in text


def test_what_the_browser_tab_shows_follows_the_state(live, ada):
    assert 'data-title="Live: Sam Doe" data-icon="/static/favicon-live.svg"' in draw(live, "header")
    services.pause(session=live, actor=ada)
    assert 'data-title="Paused: Sam Doe" data-icon="/static/favicon-paused.svg"' in draw(live, "header")


def test_both_sides_are_told_that_a_pause_stops_the_clock_and_nothing_else(live, ada):
    services.pause(session=live, actor=ada)
    assert "their kubectl still works" in draw(live, "link")
    assert "Your access to the cluster stays open" in draw(live, "watchers", role=panels.CANDIDATE)


def test_a_pause_that_closes_the_access_says_how_far_that_has_come(live, ada):
    InterviewSession.objects.update(close_while_paused=True)
    session = services.pause(session=live, actor=ada)
    assert "their access is being closed" in draw(session, "link")
    assert "Access closed" in draw(session, "header")
    InterviewSession.objects.update(access_revoked_at=clock.now())
    session.refresh_from_db()
    assert "Paused, access closed." in draw(session, "link")
    assert "their kubectl is refused" in draw(session, "link")


def test_the_time_line_has_a_scale_names_people_and_leads_to_what_it_tells_of(live, scenario, ada):
    ada.first_name, ada.last_name = "Ada", "Lovelace"
    ada.save()
    services.release_hint(scenario=scenario, index=1, actor=ada)
    note = services.add_note(session=live, text="Calm", actor=ada)
    text = draw(live, "timeline")
    assert [f">{label}</text>" in text for label in ("0", "10 min", "20 min", "50 min")] == [True] * 4
    assert "Ada Lovelace</td>" in text
    assert "user:" not in text
    page = text + draw(live, "hints") + panels.render_for(live, "notes", panels.INTERVIEWER, None, user=ada)
    for goal in (f"hint-{scenario.uuid}-1", f"note-{note.uuid}"):
        assert f'href="#{goal}"' in text
        assert f'id="{goal}"' in page


def test_a_browser_that_takes_gzip_gets_the_shared_snapshot_made_plain(client, ada, live, settings, redis_url):
    settings.REDIS_URL = redis_url
    redis = live_frames.client()
    frames.sign_of_life(redis)
    frame = frames.Frame(1, clock.now(), {"pods": "<p>a\u202eb</p>"}, {"pods": "<p>a\u202eb</p>"})
    frames.publish(redis, str(live.uuid), "interviewer", frame)
    client.force_login(ada)
    url = f"/sessions/{live.uuid}/panels/all/"
    plain = client.get(url).content.decode()
    small = client.get(url, headers={"Accept-Encoding": "gzip, deflate, br"})
    assert (small.status_code, small["Content-Encoding"]) == (200, "gzip")
    assert gzip.decompress(small.content).decode() == plain == "<p>a\ufffdb</p>"


def test_nothing_is_claimed_about_kubectl_where_no_first_request_is_on_record(live):
    """Kubernetes keeps no record of a token's first use, and no cluster's host is asked."""
    InterviewSession.objects.update(joined_at=clock.now())
    live = InterviewSession.objects.get()
    assert "kubectl request" not in draw(live, "link")
    assert "kubectl" not in draw(live, "header")
    assert "hidden" in draw(live, "connection", role=panels.CANDIDATE)


def test_a_first_request_on_record_is_shown(live):
    """Sessions of before have one."""
    InterviewSession.objects.update(joined_at=clock.now(), first_request_at=clock.now())
    live = InterviewSession.objects.get()
    assert "First kubectl request" in draw(live, "link")
    assert "Connected" in draw(live, "header")
    assert "Your kubectl is connected" in draw(live, "connection", role=panels.CANDIDATE)
