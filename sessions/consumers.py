"""The browsers' ears: each forwards the rendered panels of one session to one browser, and takes no commands."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import Http404

from sessions import clock, hub, panels, presence, selectors
from sessions.hub import Audience
from sessions.models import InterviewSession

STRANGER = 4404


class PanelConsumer(AsyncWebsocketConsumer):
    """Sends an audience's frames. ``allowed`` settles who listens; to a stranger there is no such session."""

    role = ""
    channel_layer_alias = "none"  # else every browser would hold a subscription of its own; the hub has the only one
    _feed: hub.Feed | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        """Accept who may listen, and begin to send."""
        uuid: UUID = self.scope["url_route"]["kwargs"]["uuid"]
        if not await self.allowed(uuid):
            await self.close(code=STRANGER)
            return
        self._feed = await hub.current().subscribe(Audience(str(uuid), self.role))
        await self.accept()
        self._tasks = (
            asyncio.create_task(self._send_frames(self._feed)),
            asyncio.create_task(self._tell_presence(str(uuid))),
        )

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._feed is not None:
            await hub.current().unsubscribe(self._feed)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what a browser says: whatever changes something is a form, with its permission check."""

    async def allowed(self, uuid: UUID) -> bool:
        """Return whether this browser may see the session in this role."""
        raise NotImplementedError

    def who(self) -> int | None:
        """Return the user whose page this is, or None for the candidate."""
        return None

    async def _tell_presence(self, uuid: str) -> None:
        """Say that this page is open for as long as it is: people are told who watches them."""
        connection = uuid4().hex
        try:
            while True:
                await asyncio.to_thread(presence.seen, uuid, self.who(), connection, clock.now())
                await asyncio.sleep(presence.REPEAT_S)
        finally:
            await asyncio.to_thread(presence.gone, uuid, self.who(), connection)

    async def _send_frames(self, feed: hub.Feed) -> None:
        while True:
            await self.send(text_data=await feed.next())


class InterviewerConsumer(PanelConsumer):
    """For whoever may open the session's page."""

    role = panels.INTERVIEWER

    async def allowed(self, uuid: UUID) -> bool:
        """Ask the same look-up as the page."""
        user: User | AnonymousUser = self.scope["user"]  # type: ignore[assignment]
        return await database_sync_to_async(_is_visible)(user, uuid)

    def who(self) -> int | None:
        """Name the user."""
        user: User = self.scope["user"]  # type: ignore[assignment]
        return int(user.pk)


class CandidateConsumer(PanelConsumer):
    """For the browser that used the session's join link."""

    role = panels.CANDIDATE

    async def allowed(self, uuid: UUID) -> bool:
        """Ask the browser's own cookie session."""
        cookies: SessionBase = self.scope["session"]
        return await database_sync_to_async(_is_candidate)(cookies, uuid)


def _is_visible(user: User | AnonymousUser, uuid: UUID) -> bool:
    if isinstance(user, AnonymousUser):
        return False
    try:
        selectors.session_for(user, uuid)
    except Http404:
        return False
    return True


def _is_candidate(cookies: SessionBase, uuid: UUID) -> bool:
    return cookies.get(selectors.CANDIDATE_KEY) == str(uuid) and InterviewSession.objects.filter(uuid=uuid).exists()
