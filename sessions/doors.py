"""Permission to hear a session's panels: asked when a WebSocket opens, and again every second while it stays open.

A page asks for permission with every request; a socket outlives the answer. So whoever has signed out, was removed or
deactivated, or whose interview has ended, must be found here. All sockets of a process are looked up together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http.cookies import CookieError, SimpleCookie
from typing import Any
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as CookieSession
from django.db import OperationalError
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from sessions import clock, selectors
from sessions.models import InterviewSession
from sessions.panels.subject import CANDIDATE

log = logging.getLogger(__name__)
LOOK_S = 1.0
GATHER_S = 0.05
"""Between two look-ups for those who come: one costs four queries, for two hundred who reconnect as for one."""
FAREWELL = timedelta(seconds=0.8)  # time for the last frame, which tells the candidate that it is over
OVER = (InterviewSession.State.ENDED, InterviewSession.State.SCORED)


@dataclass(frozen=True, slots=True)
class Pass:
    """Identity of an open socket: the session, the role, and the key of the browser's cookie session."""

    session: str
    role: str
    cookies: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A pass that opens its session: for a user (its primary key), or for the candidate (None)."""

    user: int | None


def cookie_key(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the key of the browser's cookie session as a handshake gives it, empty where it has none."""
    text = b"; ".join(value for name, value in headers if name == b"cookie").decode("latin-1")
    try:
        found = SimpleCookie(text).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return found.value if found else ""


def valid(passes: Collection[Pass]) -> dict[Pass, Entry]:
    """Return those passes that open their session now; four queries, however many there are."""
    cookies = _cookies({each.cookies for each in passes})
    people = User.objects.in_bulk({int(found[SESSION_KEY]) for found in cookies.values() if SESSION_KEY in found})
    sessions = {
        str(session.uuid): session
        for session in InterviewSession.objects.filter(uuid__in={each.session for each in passes}).prefetch_related(
            "interviewers"
        )
    }
    found = {
        each: _entry(each, sessions[each.session], cookies.get(each.cookies, {}), people)
        for each in passes
        if each.session in sessions
    }
    return {each: entry for each, entry in found.items() if entry is not None}


def _cookies(keys: set[str]) -> dict[str, dict[str, Any]]:
    rows = CookieSession.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    return {row.session_key: row.get_decoded() for row in rows}


def _entry(
    wanted: Pass, session: InterviewSession, cookies: Mapping[str, Any], people: Mapping[int, User]
) -> Entry | None:
    if wanted.role == CANDIDATE:
        return Entry(None) if selectors.is_candidate(cookies, session) and not _is_over(session) else None
    user = people.get(int(cookies.get(SESSION_KEY, 0)))
    if user is None or not user.is_active:
        return None
    if not constant_time_compare(cookies.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    may = user.is_superuser or session.owner_id == user.pk or user in session.interviewers.all()
    return Entry(user.pk) if may else None


def _is_over(session: InterviewSession) -> bool:
    ended = session.ended_at
    return session.state in OVER and (ended is None or clock.now() - ended >= FAREWELL)


class Doors:
    """The open sockets of one event loop, and the task that looks at them; it lives while there are any."""

    def __init__(self) -> None:
        self._open: dict[Pass, set[Callable[[], object]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Pass, asyncio.Future[Entry | None]]] = []
        self._admitting: asyncio.Task[None] | None = None
        self._admitted_at = -GATHER_S

    async def admit(self, wanted: Pass) -> Entry | None:
        """Return what the pass opens, or None. All who come during a look-up and soon after it share the next one.

        Raises ``OperationalError`` where the database does not answer.
        """
        answer: asyncio.Future[Entry | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, answer))
        if self._admitting is None or self._admitting.done():
            self._admitting = asyncio.create_task(self._admit_waiting())
        return await answer

    def guard(self, wanted: Pass, shut: Callable[[], object]) -> None:
        """Call ``shut`` once the pass is no longer valid."""
        self._open.setdefault(wanted, set()).add(shut)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_again_and_again())

    def forget(self, wanted: Pass, shut: Callable[[], object]) -> None:
        """Stop looking after a socket that has closed."""
        self._open.get(wanted, set()).discard(shut)
        if not self._open.get(wanted):
            self._open.pop(wanted, None)
        if not self._open and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _admit_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(max(0.0, self._admitted_at + GATHER_S - loop.time()))
            self._admitted_at = loop.time()
            waiting, self._waiting = self._waiting, []
            try:
                found = await database_sync_to_async(valid)({wanted for wanted, _ in waiting})
            except OperationalError as exc:
                for _, answer in waiting:
                    if not answer.done():
                        answer.set_exception(exc)
                continue
            for wanted, answer in waiting:
                if not answer.done():
                    answer.set_result(found.get(wanted))

    async def _look_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            asked = set(self._open)  # whoever comes during the look-up was not asked about
            try:
                found = await database_sync_to_async(valid)(asked)
            except OperationalError as exc:
                log.warning("Permissions could not be looked up and are looked up again: %s", exc)
                continue
            for wanted in asked - found.keys():
                for shut in self._open.pop(wanted, ()):
                    shut()


_doors: WeakKeyDictionary[asyncio.AbstractEventLoop, Doors] = WeakKeyDictionary()


def current() -> Doors:
    """Return the doors of the running event loop; a web process has one."""
    return _doors.setdefault(asyncio.get_running_loop(), Doors())
