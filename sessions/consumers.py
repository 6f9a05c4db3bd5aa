"""The browsers' ears: each forwards the rendered panels of one session to one browser, and takes no commands."""

from __future__ import annotations

import asyncio
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.http import Http404

from sessions import hub, panels, selectors
from sessions.hub import Audience
from sessions.models import InterviewSession

STRANGER = 4404


class PanelConsumer(AsyncWebsocketConsumer):
    """Sends an audience's frames. ``allowed`` settles who listens; to a stranger there is no such session."""

    role = ""
    channel_layer_alias = "none"  # else every browser would hold a subscription of its own; the hub has the only one
    _feed: hub.Feed | None = None
    _sender: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept who may listen, and begin to send."""
        uuid: UUID = self.scope["url_route"]["kwargs"]["uuid"]
        if not await self.allowed(uuid):
            await self.close(code=STRANGER)
            return
        self._feed = await hub.current().subscribe(Audience(str(uuid), self.role))
        await self.accept()
        self._sender = asyncio.create_task(self._send_frames(self._feed))

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        if self._feed is not None:
            await hub.current().unsubscribe(self._feed)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what a browser says: whatever changes something is a form, with its permission check."""

    async def allowed(self, uuid: UUID) -> bool:
        """Return whether this browser may see the session in this role."""
        raise NotImplementedError

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
