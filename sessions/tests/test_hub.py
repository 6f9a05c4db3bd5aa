"""The fan-out: one subscription, each frame to its own audience, never more than the newest of a panel."""

from __future__ import annotations

import asyncio

import pytest

from sessions import hub, live
from sessions.hub import Audience, Feed, Hub


@pytest.fixture
def layer(settings, redis_url):
    """A channel layer of its own over a real Redis; tests share the server, not the group."""
    config = {"hosts": [redis_url], "prefix": "hub-test"}
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": config}
    }
    return live.channel_layer


def message(session="s1", role="interviewer", panel="pods", html="<p>1</p>", seq=1):
    return {
        "type": live.MESSAGE_TYPE,
        "session": session,
        "role": role,
        "panel": panel,
        "seq": seq,
        "html": html,
    }


async def next_frame(feed):
    return await asyncio.wait_for(feed.next(), 5)


async def test_a_frame_reaches_every_browser_of_its_audience_through_redis(layer):
    one = Hub()
    first = await one.subscribe(Audience("s1", "interviewer"))
    second = await one.subscribe(Audience("s1", "interviewer"))
    await layer().group_send(live.GROUP, message())
    assert [await next_frame(first), await next_frame(second)] == ["<p>1</p>", "<p>1</p>"]
    await one.unsubscribe(first)
    await one.unsubscribe(second)
    await layer().flush()


async def test_roles_and_sessions_never_mix():
    one = Hub()
    feeds = {
        audience: Feed(audience)
        for audience in [Audience("s1", "interviewer"), Audience("s1", "candidate"), Audience("s2", "interviewer")]
    }
    one._feeds = {audience: {feed} for audience, feed in feeds.items()}
    one.deliver(message(html="secret"))
    one.deliver(message(role="candidate", html="public"))
    assert await next_frame(feeds[Audience("s1", "interviewer")]) == "secret"
    assert await next_frame(feeds[Audience("s1", "candidate")]) == "public"
    assert feeds[Audience("s2", "interviewer")]._frames == {}


async def test_a_slow_browser_keeps_only_the_newest_frame_of_each_panel():
    feed = Feed(Audience("s1", "interviewer"))
    for number in range(1000):
        feed.put("pods", f"pods {number}")
        feed.put("events", f"events {number}")
    assert [await next_frame(feed), await next_frame(feed)] == ["pods 999", "events 999"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(feed.next(), 0.01)


async def test_the_subscription_ends_with_the_last_browser(layer):
    one = Hub()
    feed = await one.subscribe(Audience("s1", "interviewer"))
    task = one._task
    await one.unsubscribe(feed)
    assert task.done()
    assert one._feeds == {}
    await layer().flush()


async def test_a_missing_redis_keeps_nobody_waiting(settings, tmp_path, caplog):
    config = {"hosts": [f"unix://{tmp_path}/nowhere.sock"], "prefix": "hub-test"}
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": config}
    }
    one = Hub()
    feed = await asyncio.wait_for(one.subscribe(Audience("s1", "interviewer")), 5)
    assert "Redis cannot be reached, panels stand still" in caplog.text
    await one.unsubscribe(feed)
    await live.channel_layer().flush()


async def test_one_event_loop_has_one_hub():
    assert hub.current() is hub.current()
