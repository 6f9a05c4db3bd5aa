"""The observer's panels: drawn once for each role, and sent as what changed."""

from __future__ import annotations

import pytest
import redis

from sessions import frames, panels, presence, services
from sessions.live import LiveState, PodRow
from sessions.models import InterviewSession
from sessions.observer import screens
from sessions.observer.audience import AudienceWatch
from sessions.observer.publishing import Publisher
from sessions.observer.screens import Screens


@pytest.fixture
def own_redis(settings, redis_url):
    """The real Redis."""
    settings.REDIS_URL = redis_url


@pytest.fixture
def publisher(own_redis):
    return Publisher()


@pytest.fixture
def drawn(publisher, time):
    return Screens(publisher, time, lambda session, names: None, pause_s=0)


def shown(session, name, role="interviewer"):
    """Return a panel as Redis keeps it, or None."""
    return frames.snapshot(str(session.uuid), role).panels.get(name)


def seq(session, role="interviewer"):
    return frames.snapshot(str(session.uuid), role).seq


def test_a_frame_goes_out_only_when_something_changed(drawn, live):
    drawn.mark(live.pk, ["hints"])
    assert drawn.flush() == 2  # the first one of each role brings everything
    drawn.mark(live.pk)
    assert drawn.flush() == 0
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=live.owner)
    drawn.mark(live.pk, ["hints"])
    assert drawn.flush() == 1
    assert seq(live) == 2
    assert "Released" in shown(live, "hints")


def test_each_role_gets_its_own_panels(drawn, live):
    drawn.mark(live.pk)
    drawn.flush()
    assert set(frames.snapshot(str(live.uuid), "interviewer").panels) == set(panels.names_for("interviewer"))
    assert set(frames.snapshot(str(live.uuid), "candidate").panels) == set(panels.names_for("candidate"))
    assert "Brief" not in shown(live, "statement", "candidate")


def test_an_observer_that_takes_over_goes_on_counting(drawn, publisher, live, time):
    drawn.mark(live.pk, ["header"])
    drawn.flush()
    second = Screens(publisher, time, lambda session, names: None, pause_s=0)
    second.mark(live.pk, ["header"])
    second.flush()
    assert seq(live) == 2


def test_a_redis_outage_keeps_panels_for_later(settings, redis_url, drawn, live, tmp_path, caplog):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    drawn.mark(live.pk, ["header"])
    assert drawn.flush() == 0
    assert drawn.flush() == 0
    assert caplog.text.count("Redis cannot be reached, panels wait") == 1
    settings.REDIS_URL = redis_url
    assert drawn.flush() == 2


def test_a_redis_that_has_forgotten_everything_gets_everything_again(drawn, live, settings):
    drawn.mark(live.pk)
    drawn.flush()
    redis.Redis.from_url(settings.REDIS_URL).delete(frames.screen_key(str(live.uuid), "interviewer"))
    services.release_hint(scenario=live.scenarios.get(), index=0, actor=live.owner)
    drawn.mark(live.pk, ["hints"])
    drawn.flush()
    drawn.flush()
    assert set(frames.snapshot(str(live.uuid), "interviewer").panels) == set(panels.names_for("interviewer"))


class Seconds:
    """A clock that only goes forward, and only when told to."""

    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


def cluster_of(*statuses):
    pods = [PodRow("ml", f"p{n}", "1/1", status, 0, "n", None, "", 0, False) for n, status in enumerate(statuses)]
    return LiveState(pods=pods)


def test_the_first_change_goes_out_at_once_and_the_next_ones_together(publisher, time, live):
    steady, state = Seconds(), [cluster_of("Pending", "Pending")]
    drawn = Screens(publisher, time, lambda session, names: state[0], steady=steady)
    drawn.mark(live.pk)
    assert drawn.flush() == 2
    steady.at += 1
    for status in ("Running", "Failed", "Succeeded"):
        state[0] = cluster_of(status, "Pending")
        drawn.mark(live.pk, ["pods"])
        drawn.flush()
    assert seq(live) == 2
    assert "Running" in shown(live, "pods")
    steady.at += screens.MIN_PAUSE_S
    assert drawn.flush() == 1
    assert seq(live) == 3
    assert "Succeeded" in shown(live, "pods")


def test_a_session_that_is_prepared_is_drawn_twice_a_second(publisher, time, live):
    InterviewSession.objects.filter(pk=live.pk).update(state="preparing")
    presence.seen(str(live.uuid), live.owner.pk, "tab", time())
    steady, state = Seconds(), [cluster_of("Pending")]
    drawn = Screens(publisher, time, lambda session, names: state[0], steady=steady)
    drawn.mark(live.pk)
    assert drawn.flush() == 2
    state[0] = cluster_of("Running")
    drawn.mark(live.pk, ["pods"])
    steady.at += screens.MIN_PAUSE_S * 2
    assert drawn.flush() == 0
    steady.at += screens.MIN_PAUSE_S * 3.1
    assert drawn.flush() == 1
    assert "Running" in shown(live, "pods")


def test_ten_that_are_prepared_at_once_are_drawn_once_a_second_each(publisher, time, live):
    others = [
        InterviewSession.objects.create(
            owner=live.owner, candidate_name=f"Sam {number}", minutes=60, state="preparing"
        )
        for number in range(9)
    ]
    InterviewSession.objects.filter(pk=live.pk).update(state="preparing")
    steady = Seconds()
    drawn = Screens(publisher, time, lambda session, names: None, steady=steady)
    for session in (*others, live):
        presence.seen(str(session.uuid), live.owner.pk, "tab", time())
        drawn.mark(session.pk)
    drawn.flush()
    drawn.mark(live.pk, ["phases"])
    steady.at += 1.0
    drawn.flush()
    first = seq(live)
    steady.at += 0.5
    InterviewSession.objects.filter(pk=live.pk).update(state="ready")
    drawn.mark(live.pk)
    drawn.flush()
    assert seq(live) == first
    steady.at += 0.6
    drawn.flush()
    assert seq(live) > first


@pytest.mark.parametrize("state", ["preparing", "ready"])
def test_what_nobody_sees_before_it_begins_is_drawn_once_somebody_comes_or_it_begins(
    publisher, time, live, ada, django_assert_num_queries, state
):
    other = InterviewSession.objects.create(owner=ada, candidate_name="Sam", minutes=60, state=state)
    InterviewSession.objects.filter(pk=live.pk).update(state=state)
    steady = Seconds()
    drawn = Screens(publisher, time, lambda session, names: None, steady=steady)
    drawn.mark(live.pk)
    drawn.mark(other.pk)
    assert drawn.flush() == 0
    steady.at += screens.MIN_PREPARING_FACTOR * screens.MIN_PAUSE_S
    drawn.mark(live.pk, ["phases"])
    with django_assert_num_queries(0):
        assert drawn.flush() == 0
    presence.seen(str(live.uuid), ada.pk, "tab", time())
    watch = AudienceWatch(drawn.mark)
    watch.look(time())
    InterviewSession.objects.filter(pk=other.pk).update(state="live")
    drawn.mark(other.pk)
    steady.at += screens.MIN_PREPARING_FACTOR * screens.MIN_PAUSE_S
    assert drawn.flush() == 4  # both roles of both
    assert (seq(live), seq(other)) == (1, 1)
    assert set(frames.snapshot(str(live.uuid), "interviewer").panels) == set(panels.names_for("interviewer"))


def test_a_change_of_a_pod_costs_no_query_and_less_than_a_kilobyte(
    publisher, time, live, monkeypatch, django_assert_num_queries
):
    sent = []
    publish = publisher.publish
    monkeypatch.setattr(publisher, "publish", lambda *args: sent.append(frames.encode(*args)) or publish(*args))
    steady, state = Seconds(), [cluster_of(*["Running"] * 50)]
    drawn = Screens(publisher, time, lambda session, names: state[0], steady=steady, pause_s=0)
    drawn.mark(live.pk)
    drawn.flush()
    state[0] = cluster_of(*["Running"] * 49, "Failed")
    drawn.mark(live.pk, ["pods", "nodes"])
    with django_assert_num_queries(0):
        assert drawn.flush() == 1
    assert len(sent[-1]) < 1024
    steady.at += screens.SESSION_KEPT_S + 0.01
    drawn.mark(live.pk, ["pods"])
    with django_assert_num_queries(1):  # whether it is quiet time may have changed
        assert drawn.flush() == 0
