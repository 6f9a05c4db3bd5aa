"""Ending an interview without waiting for anything: the candidate is cut off first, the database is told then."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction

from sessions import clock, disk_space, end_requests
from sessions.end_requests import EndRequest
from sessions.errors import SessionError
from sessions.models import ClockEntry, InterviewSession
from sessions.services.lifecycle import OPEN, end

log = logging.getLogger(__name__)
WAIT_S = 1.0  # for a lock on the database, while a person waits for the page
DEFAULT_WAIT_S = 20
OVERRULING = (ClockEntry.Kind.START, ClockEntry.Kind.RESUME, ClockEntry.Kind.END)


class NotRecordedYet(SessionError):
    """The candidate is being cut off, but the database cannot write; the end is recorded once it can."""


def end_now(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """End a session; where it runs, cut the candidate off whatever the database says.

    Raises NotRecordedYet where the end could not be written down: it stands all the same.
    """
    if session.state not in OPEN:
        return end(session=session, actor=actor)
    request = EndRequest(session.pk, actor.pk if actor else None, clock.now(), _newest_entry(session.pk))
    end_requests.keep(request)
    try:
        with short_waits(WAIT_S):
            session = _record_with_reserve(request) or session
    except OperationalError as exc:
        log.warning("The end of session %s is not recorded yet: %s", session.uuid, exc)
        raise NotRecordedYet(
            f"Ended at {request.at:%H:%M:%S} UTC, and the candidate is being cut off. The database cannot write now "
            f"({_reason(exc)}); the end is recorded with this time as soon as it can."
        ) from exc
    return session


def _record_with_reserve(request: EndRequest) -> InterviewSession | None:
    """Record an end; on a full disk in the room that was reserved for it."""
    try:
        return record_end(request)
    except OperationalError as exc:
        if not is_full(exc) or not disk_space.use_reserve():
            raise
        return record_end(request)


def is_full(exc: OperationalError) -> bool:
    """Whether a write failed for want of room."""
    return any(words in str(exc) for words in ("full", "disk I/O", "No space"))


def record_end(request: EndRequest) -> InterviewSession | None:
    """Write a requested end down, unless the session was resumed or ended since. Raises OperationalError."""
    with transaction.atomic():
        session = InterviewSession.objects.select_for_update().filter(pk=request.session_id).first()
        if session is not None and not _is_overruled(request):
            session = end(session=session, actor=_actor(request), at=request.at)
    end_requests.forget(request)
    return session


def _actor(request: EndRequest) -> User | None:
    return User.objects.filter(pk=request.actor_id).first() if request.actor_id is not None else None


def _is_overruled(request: EndRequest) -> bool:
    newer = ClockEntry.objects.filter(session_id=request.session_id, pk__gt=request.after, kind__in=OVERRULING)
    return newer.exists()


def _newest_entry(session_id: int) -> int:
    entries = ClockEntry.objects.filter(session_id=session_id).order_by("-pk").values_list("pk", flat=True)
    return entries.first() or 0


def is_locked(exc: OperationalError) -> bool:
    """Whether somebody else keeps the database from being written to; in the words of SQLite and PostgreSQL."""
    return any(words in str(exc) for words in ("locked", "lock timeout"))


def _reason(exc: OperationalError) -> str:
    if is_full(exc):
        return "the disk is full: free some space"
    return "it is locked by another process" if is_locked(exc) else str(exc).strip().partition("\n")[0]


@contextmanager
def short_waits(seconds: float) -> Iterator[None]:
    """Wait at most so long for a lock on the database inside the block."""
    _set_lock_timeout(seconds)
    try:
        yield
    finally:
        with suppress(OperationalError):  # a connection that was lost is not used again
            _set_lock_timeout(DEFAULT_WAIT_S if connection.vendor == "sqlite" else 0)


def _set_lock_timeout(seconds: float) -> None:
    name = "PRAGMA busy_timeout" if connection.vendor == "sqlite" else "SET lock_timeout"
    with connection.cursor() as cursor:
        cursor.execute(f"{name} = {round(seconds * 1000)}")
