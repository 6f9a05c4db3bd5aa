"""The browsers' ears: each forwards the frames of one session to one browser, and takes no commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qs
from uuid import UUID, uuid4

from channels.consumer import get_handler_name
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import OperationalError

from sessions import attendance, doors, hub, panels
from sessions.doors import Entry, Pass, cookie_key
from sessions.hub import Audience
from sessions.presence import Connection
from sessions.shared_frames import WRITE_ENCODED, Write, write_nothing

log = logging.getLogger(__name__)
STRANGER = 4404
TOO_MANY = 4429


class PanelConsumer(AsyncWebsocketConsumer):
    """Sends an audience's frames to those whose pass is valid; to a stranger there is no such session.

    The address may carry ``seq``, the frame that the page shows: it then gets only what came after it.
    """

    role = ""
    channel_layer_alias = "none"  # else every browser would hold a subscription of its own; the hub has the only one
    _pass: Pass | None = None
    _feed: hub.Feed | None = None
    _connection: Connection | None = None
    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def dispatch(self, message: Any) -> None:
        """Handle a message, without the thread in which channels closes connections to the database: none is ours."""
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        """Accept who may listen, and begin to send."""
        uuid: UUID = self.scope["url_route"]["kwargs"]["uuid"]
        wanted = Pass(str(uuid), self.role, cookie_key(self.scope["headers"]))
        try:
            entry = await doors.current().admit(wanted)
        except OperationalError as exc:
            log.warning("Permissions could not be looked up, the browser will come again: %s", exc)
            entry = None
        if entry is None:
            await self.close(code=STRANGER)
            return
        if not self._has_place(entry):
            await self.close(code=TOO_MANY)
            return
        self._pass = wanted
        doors.current().guard(wanted, self._shut)
        self._feed = await hub.current().subscribe(Audience(str(uuid), self.role), self._shown(), self._write())
        await self.accept()
        self._connection = Connection(str(uuid), entry.user, uuid4().hex)
        attendance.current().enter(self._connection)
        self._tasks = (asyncio.create_task(self._send_frames(self._feed)),)

    async def disconnect(self, code: int) -> None:
        """Stop sending."""
        if self._pass is not None:
            doors.current().forget(self._pass, self._shut)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._connection is not None:
            await attendance.current().leave(self._connection)
        if self._feed is not None:
            await hub.current().unsubscribe(self._feed)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore what a browser says: whatever changes something is a form, with its permission check."""

    def _has_place(self, entry: Entry) -> bool:
        """Take one of a user's places for sockets, which the site limits; a candidate's browser has its own."""
        claim: Callable[[int], bool] = cast(Any, self.scope)["claim_place"]
        return entry.user is None or claim(entry.user)

    def _shown(self) -> int:
        """Return the number of the frame that the page shows, -1 where it does not tell."""
        text = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("seq", [""])[0]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1

    def _write(self) -> Write:
        """Return the server's way to write what is encoded already, if it has one."""
        found: Write = cast(Any, self.scope).get("extensions", {}).get(WRITE_ENCODED, write_nothing)
        return found

    def _shut(self) -> None:
        """Close the socket of somebody who may no longer listen."""
        self._tasks += (asyncio.create_task(self.close(code=STRANGER)),)

    async def _send_frames(self, feed: hub.Feed) -> None:
        while True:
            text = await feed.next()
            if text is None:
                text = await hub.current().catch_up(feed)
            if text:
                await self.send(text_data=text)


class InterviewerConsumer(PanelConsumer):
    """For whoever may open the session's page."""

    role = panels.INTERVIEWER


class CandidateConsumer(PanelConsumer):
    """For the browser that used the session's join link."""

    role = panels.CANDIDATE
