"""Listeners of a session's panels: those admitted, and the frames they get."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from uuid import uuid4

import orjson
import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db.backends.utils import CursorWrapper

from interview_site.asgi import application
from interview_site.socket_limits import MAX_SOCKETS
from sessions import clock, doors, frames, live, presence, services
from sessions.frames import Frame
from sessions.models import InterviewSession
from sessions.routing import websocket_urlpatterns
from sessions.selectors import CANDIDATE_KEY

pytestmark = pytest.mark.django_db(transaction=True)
QUERIES_OF_A_LOOK_UP = 4


@pytest.fixture
def redis(settings, redis_url):
    settings.REDIS_URL = redis_url
    return live.client()


@pytest.fixture
def mine(ada):
    return InterviewSession.objects.create(owner=ada, candidate_name="Sam", title="GPU", minutes=60)


class Browser(ApplicationCommunicator):
    """A WebSocket as the site's middleware hands it to the consumers."""

    def __init__(self, path, user=None, cookies=None):
        scope = {"type": "websocket", "path": path, "headers": [], "subprotocols": []}
        scope["claim_place"] = lambda user: True
        self.cookies = SessionStore()
        self.user, self.extra, self.scope = user, cookies or {}, scope
        super().__init__(URLRouter(websocket_urlpatterns), scope)

    def sign_in(self):
        if self.user:
            signed_in = {SESSION_KEY: self.user.pk, HASH_SESSION_KEY: self.user.get_session_auth_hash()}
            self.cookies.update(signed_in)
        self.cookies.update(self.extra)
        self.cookies.save()
        cookie = f"other=1; {settings.SESSION_COOKIE_NAME}={self.cookies.session_key}"
        self.scope["headers"] = [(b"cookie", cookie.encode())]

    async def connect(self):
        """Return None where the door opened, else the code with which it was shut."""
        await database_sync_to_async(self.sign_in)()
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(30)
        return None if answer["type"] == "websocket.accept" else answer["code"]

    async def say(self, **data):
        await self.send_input({"type": "websocket.receive", **data})

    async def hear(self):
        """Return the next HTML, from a frame or from a snapshot."""
        while True:
            message = orjson.loads((await self.receive_output(30))["text"])
            if html := message.get("all") or "".join(message.get("panels", {}).values()):
                return html

    async def shut(self):
        """Return the code with which an open door is shut, within two seconds."""
        while (answer := await self.receive_output(2))["type"] != "websocket.close":
            pass
        await self.leave()
        return answer["code"]

    async def leave(self):
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(30)


async def send(redis, session, role, html):
    """Publish the screen's next frame."""
    uuid = str(session.uuid)
    seq = frames.last_seq(redis, uuid, role) + 1
    frames.publish(redis, uuid, role, Frame(seq, clock.now(), {"pods": html}, {"pods": html}))


async def test_an_interviewer_hears_the_interviewers_frames_only(redis, mine, ada):
    socket = Browser(f"/ws/sessions/{mine.uuid}/", user=ada)
    assert await socket.connect() is None
    await send(redis, mine, "candidate", "for the candidate")
    await send(redis, mine, "interviewer", "for the interviewer")
    assert await socket.hear() == "for the interviewer"
    assert await socket.receive_nothing(0.05)
    await socket.leave()


async def test_the_candidate_hears_the_candidates_frames_only(redis, mine):
    socket = Browser(f"/ws/candidate/{mine.uuid}/", cookies={CANDIDATE_KEY: str(mine.uuid)})
    assert await socket.connect() is None
    await send(redis, mine, "interviewer", "for the interviewer")
    await send(redis, mine, "candidate", "for the candidate")
    assert await socket.hear() == "for the candidate"
    await socket.leave()


async def test_strangers_are_told_that_there_is_no_such_session(mine, mallory):
    for socket in [
        Browser(f"/ws/sessions/{mine.uuid}/", user=mallory),
        Browser(f"/ws/sessions/{mine.uuid}/"),
        Browser(f"/ws/sessions/{mine.uuid}/", cookies={CANDIDATE_KEY: str(mine.uuid)}),
        Browser(f"/ws/candidate/{mine.uuid}/"),
        Browser(f"/ws/candidate/{mine.uuid}/", cookies={CANDIDATE_KEY: str(uuid4())}),
    ]:
        assert await socket.connect() == 4404


async def test_an_interviewer_is_no_candidate(mine, ada):
    assert await Browser(f"/ws/candidate/{mine.uuid}/", user=ada).connect() == 4404


async def test_a_session_that_does_not_exist_is_refused_like_a_strangers(ada):
    unknown = uuid4()
    assert await Browser(f"/ws/sessions/{unknown}/", user=ada).connect() == 4404
    candidate = Browser(f"/ws/candidate/{unknown}/", cookies={CANDIDATE_KEY: str(unknown)})
    assert await candidate.connect() == 4404


async def test_what_a_browser_says_changes_nothing(redis, mine, ada):
    socket = Browser(f"/ws/sessions/{mine.uuid}/", user=ada)
    await socket.connect()
    await socket.say(text='{"state": "ended"}')
    await socket.say(bytes=b"\xff")
    await send(redis, mine, "interviewer", "still here")
    assert await socket.hear() == "still here"
    await socket.leave()
    await database_sync_to_async(mine.refresh_from_db)()
    assert mine.state == "draft"


def sign_out(browser, ada, grace, mine):
    browser.cookies.flush()


def deactivate(browser, ada, grace, mine):
    User.objects.filter(pk=grace.pk).update(is_active=False)


def remove(browser, ada, grace, mine):
    mine.interviewers.remove(grace)


def change_password(browser, ada, grace, mine):
    grace.set_password("another one altogether")
    grace.save()


@pytest.mark.parametrize("lose", [sign_out, deactivate, remove, change_password])
async def test_who_may_no_longer_listen_is_shut_out_within_two_seconds(redis, mine, ada, grace, lose):
    await database_sync_to_async(mine.interviewers.add)(grace)
    kept, lost = Browser(f"/ws/sessions/{mine.uuid}/", user=ada), Browser(f"/ws/sessions/{mine.uuid}/", user=grace)
    assert [await kept.connect(), await lost.connect()] == [None, None]
    await database_sync_to_async(lose)(lost, ada, grace, mine)
    assert await lost.shut() == 4404
    await send(redis, mine, "interviewer", "for those who stay")
    assert await kept.hear() == "for those who stay"
    await kept.leave()


def end(mine, ada):
    ended = clock.now() - timedelta(seconds=1)
    InterviewSession.objects.filter(pk=mine.pk).update(state="ended", ended_at=ended)


def replace_link(mine, ada):
    services.issue_join_link(session=mine, actor=ada)


@pytest.mark.parametrize("lose", [end, replace_link])
async def test_the_candidate_is_shut_out_at_the_end_and_by_a_new_link(redis, mine, ada, lose):
    socket = Browser(f"/ws/candidate/{mine.uuid}/", cookies={CANDIDATE_KEY: str(mine.uuid)})
    assert await socket.connect() is None
    await database_sync_to_async(lose)(mine, ada)
    assert await socket.shut() == 4404
    again = Browser(f"/ws/candidate/{mine.uuid}/", cookies={CANDIDATE_KEY: str(mine.uuid)})
    assert await again.connect() == 4404


@pytest.mark.parametrize("origin", [None, b"null", b"https://evil.example", b"http://127.0.0.1.evil.example", b""])
async def test_another_sites_page_opens_no_socket(redis, mine, origin):
    headers = [(b"origin", origin)] if origin is not None else []
    scope = {"type": "websocket", "path": f"/ws/sessions/{mine.uuid}/", "headers": headers, "subprotocols": []}
    socket = ApplicationCommunicator(application, scope)
    await socket.send_input({"type": "websocket.connect"})
    answer = await socket.receive_output(30)
    assert answer["type"] == "websocket.close"
    await socket.send_input({"type": "websocket.disconnect", "code": 1006})
    await socket.wait(30)


async def test_an_open_page_tells_that_somebody_watches(settings, redis_url, redis, mine, ada):
    settings.REDIS_URL = redis_url
    uuid = str(mine.uuid)
    socket = Browser(f"/ws/sessions/{uuid}/", user=ada)
    assert await socket.connect() is None
    while ada.pk not in presence.of(uuid, clock.now()).users:
        await asyncio.sleep(0)
    await socket.leave()
    assert presence.of(uuid, clock.now()).users == frozenset()


async def test_who_comes_during_a_look_at_the_permissions_is_not_shut_out(redis, mine, ada, grace, monkeypatch):
    await database_sync_to_async(mine.interviewers.add)(grace)
    looks, looking, go_on, valid = [], threading.Event(), threading.Event(), doors.valid

    def slow(passes):
        looks.append(passes)
        looking.set()
        go_on.wait(10)
        return valid(passes)

    early, late = Browser(f"/ws/sessions/{mine.uuid}/", user=ada), Browser(f"/ws/sessions/{mine.uuid}/", user=grace)
    assert await early.connect() is None
    monkeypatch.setattr(doors, "LOOK_S", 0.01)
    await database_sync_to_async(late.sign_in)()
    closed = []
    monkeypatch.setattr(doors, "valid", slow)
    await asyncio.to_thread(looking.wait, 10)
    doors.current().guard(
        doors.Pass(str(mine.uuid), "interviewer", late.cookies.session_key), lambda: closed.append(1)
    )
    go_on.set()
    while len(looks) < 3:
        await asyncio.sleep(0)
    assert closed == []
    await early.leave()
    doors.current()._open.clear()
    doors.current()._task.cancel()


@pytest.fixture
def statements(monkeypatch):
    """Every statement that is sent to the database, over whichever connection."""
    sent, execute = [], CursorWrapper.execute

    def noted(self, sql, params=None):
        sent.append(sql)
        return execute(self, sql, params)

    monkeypatch.setattr(CursorWrapper, "execute", noted)
    return sent


def handshake(session, user):
    """Return a socket to the whole site from a browser in which the user has just signed in."""
    cookies = SessionStore()
    cookies.update({SESSION_KEY: user.pk, HASH_SESSION_KEY: user.get_session_auth_hash()})
    cookies.save()
    headers = [
        (b"origin", settings.ORIGINS[0].encode()),
        (b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookies.session_key}".encode()),
    ]
    path = f"/ws/sessions/{session.uuid}/"
    scope = {"type": "websocket", "path": path, "headers": headers, "subprotocols": [], "client": ["127.0.0.1", 1]}
    return ApplicationCommunicator(application, {**scope, "query_string": b"", "scheme": "ws"})


async def opened(sockets):
    """Return whether each socket opens, all of them asking at once."""
    for socket in sockets:
        await socket.send_input({"type": "websocket.connect"})
    return [(await socket.receive_output(30))["type"] == "websocket.accept" for socket in sockets]


async def test_a_crowd_of_sockets_is_admitted_with_a_handful_of_queries(redis, mine, ada, statements, monkeypatch):
    monkeypatch.setattr(doors, "LOOK_S", 60)
    sockets = [await database_sync_to_async(handshake)(mine, ada) for _ in range(MAX_SOCKETS)]
    statements.clear()
    assert all(await opened(sockets))
    asked = [sql for sql in statements if sql.startswith("SELECT")]
    assert len(asked) <= 3 * QUERIES_OF_A_LOOK_UP, asked  # one look-up for all, or a few where they come apart
    for socket in sockets:
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(30)


async def test_who_come_soon_after_another_share_a_look_up(monkeypatch):
    asked = []
    monkeypatch.setattr(doors, "GATHER_S", 0.5)
    monkeypatch.setattr(doors, "valid", lambda passes: asked.append(set(passes)) or {})
    passes, found = [doors.Pass("session", "interviewer", str(number)) for number in range(3)], doors.Doors()
    await found.admit(passes[0])
    second = asyncio.create_task(found.admit(passes[1]))
    await asyncio.sleep(0)  # it has begun to wait
    await asyncio.gather(second, found.admit(passes[2]))
    assert asked == [{passes[0]}, set(passes[1:])]


async def test_a_user_has_eight_sockets_in_however_many_browsers(redis, mine, ada, grace):
    await database_sync_to_async(mine.interviewers.add)(grace)
    sockets = [await database_sync_to_async(handshake)(mine, ada) for _ in range(MAX_SOCKETS + 1)]
    others = [await database_sync_to_async(handshake)(mine, grace)]
    assert sum(await opened(sockets)) == MAX_SOCKETS
    assert await opened(others) == [True]
    for socket in [*sockets, *others]:
        await socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await socket.wait(30)
    again = [await database_sync_to_async(handshake)(mine, ada)]
    assert await opened(again) == [True]
    await again[0].send_input({"type": "websocket.disconnect", "code": 1000})
    await again[0].wait(30)
