"""Who may listen to a session's panels, and what they hear."""

from __future__ import annotations

from uuid import uuid4

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser

from sessions import live
from sessions.models import InterviewSession
from sessions.routing import websocket_urlpatterns
from sessions.selectors import CANDIDATE_KEY

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def layer(settings, redis_url):
    config = {"hosts": [redis_url], "prefix": "consumer-test"}
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": config}
    }
    return live.channel_layer


@pytest.fixture
def mine(ada):
    return InterviewSession.objects.create(owner=ada, candidate_name="Sam", title="GPU", minutes=60)


class Browser(ApplicationCommunicator):
    """A WebSocket as the site's middleware hands it to the consumers."""

    def __init__(self, path, user=None, cookies=None):
        scope = {"type": "websocket", "path": path, "headers": [], "subprotocols": []}
        super().__init__(
            URLRouter(websocket_urlpatterns), scope | {"user": user or AnonymousUser(), "session": cookies or {}}
        )

    async def connect(self):
        """Return None where the door opened, else the code with which it was shut."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(5)
        return None if answer["type"] == "websocket.accept" else answer["code"]

    async def say(self, **data):
        await self.send_input({"type": "websocket.receive", **data})

    async def hear(self):
        return (await self.receive_output(5))["text"]

    async def leave(self):
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(5)


async def send(layer, session, role, html):
    frame = {"session": str(session.uuid), "role": role, "panel": "pods", "seq": 1, "html": html}
    await layer().group_send(live.GROUP, {"type": live.MESSAGE_TYPE, **frame})


async def test_an_interviewer_hears_the_interviewers_frames_only(layer, mine, ada):
    socket = Browser(f"/ws/sessions/{mine.uuid}/", user=ada)
    assert await socket.connect() is None
    await send(layer, mine, "candidate", "for the candidate")
    await send(layer, mine, "interviewer", "for the interviewer")
    assert await socket.hear() == "for the interviewer"
    assert await socket.receive_nothing(0.05)
    await socket.leave()
    await layer().flush()


async def test_the_candidate_hears_the_candidates_frames_only(layer, mine):
    socket = Browser(f"/ws/candidate/{mine.uuid}/", cookies={CANDIDATE_KEY: str(mine.uuid)})
    assert await socket.connect() is None
    await send(layer, mine, "interviewer", "for the interviewer")
    await send(layer, mine, "candidate", "for the candidate")
    assert await socket.hear() == "for the candidate"
    await socket.leave()
    await layer().flush()


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


async def test_what_a_browser_says_changes_nothing(layer, mine, ada):
    socket = Browser(f"/ws/sessions/{mine.uuid}/", user=ada)
    await socket.connect()
    await socket.say(text='{"state": "ended"}')
    await socket.say(bytes=b"\xff")
    await send(layer, mine, "interviewer", "still here")
    assert await socket.hear() == "still here"
    await socket.leave()
    await database_sync_to_async(mine.refresh_from_db)()
    assert mine.state == "draft"
    await layer().flush()
