"""The browsers' ears: each forwards the rendered panels of one session to one browser, and takes no commands."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User

from sessions import clock, doors, hub, panels, presence
from sessions.doors import Pass
from sessions.hub import Audience

STRANGER = 4404


class PanelConsumer(AsyncWebsocketConsumer):
    """Sends an audience's frames to those whose pass is valid; to a stranger there is no such session."""

    role = ""
    channel_layer_alias = "none"  # else every browser would hold a subscription of its own; the hub has the only one
    _pass: Pass | None = None
    _feed: hub.Feed | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        """Accept who may listen, and begin to send."""
        uuid: UUID = self.scope["url_route"]["kwargs"]["uuid"]
        wanted = Pass(str(uuid), self.role, self.scope["session"].session_key or "")
        if not await database_sync_to_async(doors.valid)([wanted]):
            await self.close(code=STRANGER)
            return
        self._pass = wanted
        doors.current().guard(wanted, self._shut)
        self._feed = await hub.current().subscribe(Audience(str(uuid), self.role))
        await self.accept()
        self._tasks = (
            asyncio.create_task(self._send_frames(self._feed)),
            asyncio.create_task(self._tell_presence(str(uuid))),
        )

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self._pass is not None:
            doors.current().forget(self._pass, self._shut)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._feed is not None:
            await hub.current().unsubscribe(self._feed)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what a browser says: whatever changes something is a form, with its permission check."""

    def who(self) -> int | None:
        """Return the user whose page this is, or None for the candidate."""
        return None

    def _shut(self) -> None:
        """Close the socket of somebody who may no longer listen."""
        self._tasks += (asyncio.create_task(self.close(code=STRANGER)),)

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

    def who(self) -> int | None:
        """Name the user."""
        user: User = self.scope["user"]  # type: ignore[assignment]
        return int(user.pk)


class CandidateConsumer(PanelConsumer):
    """For the browser that used the session's join link."""

    role = panels.CANDIDATE
