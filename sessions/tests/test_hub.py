"""The fan-out: one subscription, each frame to its own audience, and the snapshot to whoever has missed one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import orjson
import pytest

from sessions import frames, hub, live
from sessions.frames import Frame, Snapshot
from sessions.hub import IN_SYNC, MAX_BACKLOG, STALE, Audience, Feed, Hub
from sessions.shared_frames import encode

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def redis(settings, redis_url):
    settings.REDIS_URL = redis_url
    return live.client()


@pytest.fixture
def audience():
    return Audience(str(uuid4()), "interviewer")


@pytest.fixture
async def one():
    """A hub that ends with the test."""
    hub_of_test = Hub()
    feeds = []
    subscribe = hub_of_test.subscribe

    async def remembered(*args):
        feeds.append(await subscribe(*args))
        return feeds[-1]

    hub_of_test.subscribe = remembered
    yield hub_of_test
    for feed in feeds:
        await hub_of_test.unsubscribe(feed)


def publish(redis, audience, seq, **panels):
    frames.publish(redis, audience.session, audience.role, Frame(seq, NOON, panels, panels))


async def text_of(one, feed):
    """Return the next text that a browser gets, as the consumer sends it."""
    while True:
        text = await asyncio.wait_for(feed.next(), 5)
        text = await one.catch_up(feed) if text is None else text
        if text:
            return text


async def settled(one, feed):
    """Let the feed compare itself with the newest snapshot."""
    if await feed.next() is None:
        await one.catch_up(feed)


async def test_a_frame_reaches_every_browser_of_its_audience_through_redis(redis, one, audience):
    feeds = [await one.subscribe(audience, 0), await one.subscribe(audience, 0)]
    for feed in feeds:
        await settled(one, feed)
    publish(redis, audience, 1, pods="<p>1</p>")
    for feed in feeds:
        assert orjson.loads(await text_of(one, feed)) == {"seq": 1, "panels": {"pods": "<p>1</p>"}}


async def test_roles_and_sessions_never_mix(redis, one):
    mine, other = str(uuid4()), str(uuid4())
    interviewer = await one.subscribe(Audience(mine, "interviewer"), 0)
    candidate = await one.subscribe(Audience(mine, "candidate"), 0)
    stranger = await one.subscribe(Audience(other, "interviewer"), 0)
    for feed in (interviewer, candidate, stranger):
        await settled(one, feed)
    publish(redis, Audience(mine, "interviewer"), 1, pods="secret")
    publish(redis, Audience(mine, "candidate"), 1, clock="public")
    assert "secret" in await text_of(one, interviewer)
    assert "public" in await text_of(one, candidate)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stranger.next(), 0.01)


async def test_a_page_that_shows_the_newest_frame_is_sent_nothing(redis, one, audience):
    publish(redis, audience, 1, pods="<p>1</p>")
    feed = await one.subscribe(audience, 1)
    await settled(one, feed)
    publish(redis, audience, 2, pods="<p>2</p>")
    assert '"seq":2' in await text_of(one, feed)


async def test_a_page_that_missed_something_gets_the_whole_screen(redis, one, audience):
    publish(redis, audience, 1, pods="<p>pods</p>", nodes="<p>nodes</p>")
    publish(redis, audience, 2, pods="<p>new</p>")
    for seq in (-1, 0, 1, 9):
        feed = await one.subscribe(audience, seq)
        assert orjson.loads(await text_of(one, feed)) == {"seq": 2, "all": "<p>new</p><p>nodes</p>"}


async def test_two_hundred_who_come_at_once_share_one_snapshot(redis, one, audience, monkeypatch):
    publish(redis, audience, 1, pods="<p>1</p>")
    parsed, parse = [], frames.parse_snapshot
    monkeypatch.setattr(frames, "parse_snapshot", lambda found: parsed.append(1) or parse(found))
    feeds = await asyncio.gather(*(one.subscribe(audience) for _ in range(200)))
    texts = await asyncio.gather(*(text_of(one, feed) for feed in feeds))
    assert len({id(text) for text in texts}) == 1
    assert len(parsed) == 1


async def test_a_slow_browser_gets_the_snapshot_in_place_of_a_long_backlog(audience):
    feed = Feed(audience, 0)
    feed.catch_up(Snapshot(0))
    for seq in range(1, MAX_BACKLOG + 2):
        feed.put(seq, str(seq), encode(str(seq)))
    assert await feed.next() is None
    assert feed.catch_up(Snapshot(MAX_BACKLOG, {"pods": "all"}))
    assert await feed.next() == str(MAX_BACKLOG + 1)


async def test_a_gap_puts_the_browser_behind_and_the_snapshot_mends_it(audience):
    feed = Feed(audience, 3)
    feed.catch_up(Snapshot(3))
    feed.put(4, "four", encode("four"))
    feed.put(6, "six", encode("six"))
    assert await feed.next() is None
    assert feed.catch_up(Snapshot(6))
    feed.put(7, "seven", encode("seven"))
    assert await feed.next() == "seven"


class Wire:
    """A connection to which a server writes what is encoded, while it keeps up."""

    def __init__(self):
        self.written, self.keeps_up = [], True

    def write(self, frame):
        if self.keeps_up:
            self.written.append(frame)
        return self.keeps_up


async def waiting(feed):
    """Return the task of a browser that has all there is and waits for more."""
    task = asyncio.create_task(feed.next())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_frame_is_encoded_once_and_written_to_all_who_wait_for_it_without_a_turn_of_theirs(redis, audience):
    one, wires = Hub(), [Wire() for _ in range(5)]
    feeds = [await one.subscribe(audience, 0, wire.write) for wire in wires]
    for feed in feeds:
        feed.catch_up(Snapshot(0))
    tasks = [await waiting(feed) for feed in feeds]
    one.deliver(audience, 1, "one")
    assert {wire.written[0] for wire in wires} == {b"\x81\x03one"}
    assert len({id(wire.written[0]) for wire in wires}) == 1
    await one.beat()
    assert [len(wire.written) for wire in wires] == [2] * 5
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    for feed, task in zip(feeds, tasks, strict=True):
        task.cancel()
        await one.unsubscribe(feed)


async def test_nothing_overtakes_what_a_browsers_task_still_sends(audience):
    wire = Wire()
    feed = Feed(audience, 0, wire.write)
    feed.catch_up(Snapshot(0))
    task, wire.keeps_up = await waiting(feed), False
    feed.put(1, "one", encode("one"))
    wire.keeps_up = True
    feed.put(2, "two", encode("two"))
    assert await task == "one"
    feed.put(3, "three", encode("three"))
    feed.beat(IN_SYNC, encode(IN_SYNC))
    assert [await feed.next(), await feed.next(), await feed.next()] == ["two", "three", IN_SYNC]
    assert wire.written == []
    task = await waiting(feed)
    feed.put(4, "four", encode("four"))
    assert wire.written == [encode("four")]
    task.cancel()


async def test_a_last_frame_that_got_lost_is_noticed_by_the_second_heartbeat(redis, one, audience):
    frames.sign_of_life(redis)
    publish(redis, audience, 1, pods="<p>1</p>")
    feed = await one.subscribe(audience, 1)
    await settled(one, feed)
    redis.hset(frames.screen_key(audience.session, audience.role), mapping={"seq": 2, "panel:pods": "<p>2</p>"})
    await one.beat()
    assert await text_of(one, feed) == IN_SYNC
    await one.beat()
    assert {await text_of(one, feed), await text_of(one, feed)} == {IN_SYNC, '{"seq":2,"all":"<p>2</p>"}'}


async def test_without_an_observer_the_heartbeat_says_that_nothing_is_kept_current(redis, one, audience):
    redis.delete(frames.OBSERVER_KEY)
    feed = await one.subscribe(audience, 0)
    await settled(one, feed)
    await one.beat()
    assert await text_of(one, feed) == STALE


async def test_a_missing_redis_keeps_nobody_waiting_and_is_told(settings, tmp_path, caplog, one, audience):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    feed = await asyncio.wait_for(one.subscribe(audience), 5)
    assert "Redis cannot be reached, panels stand still" in caplog.text
    await one.beat()
    assert await text_of(one, feed) == STALE


async def test_the_subscription_ends_with_the_last_browser(redis, audience):
    one = Hub()
    feed = await one.subscribe(audience)
    tasks = one._tasks
    await one.unsubscribe(feed)
    assert all(task.done() for task in tasks)
    assert one._audiences == {}


async def test_one_event_loop_has_one_hub():
    assert hub.current() is hub.current()
