"""Presence at a session's pages: told by connections, shown to the other side within a moment."""

from __future__ import annotations

import asyncio

import pytest

from sessions import clock, presence
from sessions.attendance import Attendance
from sessions.observer.audience import AudienceWatch
from sessions.presence import Connection

UUID = "5a2ba8c0-0000-4000-8000-000000000000"


@pytest.fixture
def store(settings, redis_url):
    settings.REDIS_URL = redis_url


@pytest.fixture
def marked():
    return []


@pytest.fixture
def watch(marked):
    return AudienceWatch(lambda pk, names: marked.append((pk, tuple(names))))


@pytest.mark.usefixtures("store")
def test_a_person_is_there_while_one_connection_is_open(time):
    presence.seen(UUID, 7, "a", time())
    presence.seen(UUID, 7, "b", time())
    presence.seen(UUID, None, "c", time())
    assert presence.of(UUID, time()) == presence.Presence(frozenset({7}), True)
    presence.tell([], [Connection(UUID, 7, "a")], time())
    assert presence.of(UUID, time()).users == {7}
    presence.tell([], [Connection(UUID, 7, "b")], time())
    presence.tell([], [Connection(UUID, None, "c")], time())
    assert presence.of(UUID, time()) == presence.Presence()


@pytest.mark.usefixtures("store")
def test_what_has_not_been_heard_of_is_gone(time):
    presence.seen(UUID, 8, "a", time())
    assert presence.of(UUID, time.advance(presence.KEEP_S - 1)).users == {8}
    assert presence.of(UUID, time.advance(2)).users == frozenset()


@pytest.mark.usefixtures("store")
def test_coming_and_going_has_both_sides_drawn_again(live, ada, time, watch, marked):
    watch.look(time())
    assert [pk for pk, _ in marked] == [live.pk]
    watch.look(time())
    assert len(marked) == 1
    presence.seen(str(live.uuid), ada.pk, "tab", time())
    watch.look(time())
    presence.tell([], [Connection(str(live.uuid), ada.pk, "tab")], time())
    watch.look(time())
    assert marked[1:] == [(live.pk, ("watchers", "link"))] * 2


def test_without_redis_nobody_can_tell_and_nothing_fails(settings, tmp_path, live, ada, time, watch, marked):
    settings.REDIS_URL = f"unix://{tmp_path}/nowhere.sock"
    presence.seen(str(live.uuid), ada.pk, "tab", time())
    presence.tell([], [Connection(str(live.uuid), ada.pk, "tab")], time())
    assert presence.of(str(live.uuid), time()) is None
    watch.look(time())
    assert marked == []


@pytest.mark.usefixtures("store")
async def test_all_who_come_while_redis_is_told_share_one_round_trip(monkeypatch):
    told = []
    tell = presence.tell
    monkeypatch.setattr(presence, "tell", lambda *news: told.append(news) or tell(*news))
    attendance = Attendance()
    tabs = [Connection(UUID, number, "tab") for number in range(200)]
    for tab in tabs:
        attendance.enter(tab)
    await asyncio.gather(*(attendance.leave(tab) for tab in tabs[1:]))
    assert presence.of(UUID, clock.now()).users == {0}
    assert len(told) <= 3
    await attendance.leave(tabs[0])
    assert presence.of(UUID, clock.now()).users == frozenset()
