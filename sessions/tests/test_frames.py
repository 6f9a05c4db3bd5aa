"""Frames and snapshots in Redis."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from sessions import clock, frames, live, snapshots
from sessions.frames import Frame

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def redis(settings, redis_url):
    settings.REDIS_URL = redis_url
    return live.client()


@pytest.fixture
def uuid():
    return str(uuid4())


def frame(seq, **panels):
    return Frame(seq, NOON, panels, panels)


def test_the_snapshot_keeps_the_newest_html_of_every_panel(redis, uuid):
    assert frames.publish(redis, uuid, "interviewer", frame(1, pods="<p>old</p>", nodes="<p>n</p>")) == 0
    assert frames.publish(redis, uuid, "interviewer", frame(2, pods="<p>ü</p>")) == 1
    found = frames.snapshot(uuid, "interviewer")
    assert (found.seq, dict(found.panels)) == (2, {"pods": "<p>ü</p>", "nodes": "<p>n</p>"})
    assert frames.panels_of(uuid, "interviewer", ["pods", "events"]).panels == {"pods": "<p>ü</p>"}


def test_roles_have_screens_of_their_own(redis, uuid):
    frames.publish(redis, uuid, "interviewer", frame(1, pods="secret"))
    assert frames.snapshot(uuid, "candidate") == frames.Snapshot()


def test_a_redis_that_forgot_the_other_panels_tells_so(redis, uuid):
    frames.publish(redis, uuid, "interviewer", frame(1, pods="a"))
    redis.delete(frames.screen_key(uuid, "interviewer"))
    assert frames.publish(redis, uuid, "interviewer", frame(2, nodes="b")) == 0


def test_what_travels_is_what_was_sent(uuid):
    data = frames.encode(uuid, "interviewer", frame(7, pods="a\nb ü"))
    assert frames.decode(data) == (uuid, "interviewer", 7, '{"seq":7,"panels":{"pods":"a\\nb ü"}}')


def test_without_redis_there_is_no_snapshot_and_no_error(settings, tmp_path, uuid):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    assert frames.snapshot(uuid, "interviewer") is None
    assert frames.panels_of(uuid, "interviewer", ["pods"]) is None
    assert snapshots.newest(uuid, "interviewer") is None


def test_a_snapshot_is_read_and_compressed_once_for_all_who_fetch_it(redis, uuid):
    frames.sign_of_life(redis)
    frames.publish(redis, uuid, "interviewer", frame(1, pods="a" * 5000))
    first = snapshots.newest(uuid, "interviewer")
    assert snapshots.newest(uuid, "interviewer") is first
    assert len(first.zipped) < 100
    frames.publish(redis, uuid, "interviewer", frame(2, pods="b"))
    assert snapshots.newest(uuid, "interviewer").html == b"b"


def test_a_snapshot_that_no_observer_keeps_current_is_not_served(redis, uuid):
    frames.publish(redis, uuid, "interviewer", frame(1, pods="a"))
    redis.delete(frames.OBSERVER_KEY)
    assert snapshots.newest(uuid, "interviewer") is None


def test_kept_html_tells_its_ages_as_of_now():
    at = "2026-05-04T11:59:00+00:00"
    html = f'<td><time datetime="{at}" title="x" data-ago="short">3 s</time></td>'
    with clock.use(clock.SteppingClock(NOON)):
        assert ">1 min</time>" in frames.with_current_ages(html)
