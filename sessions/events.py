"""The session's one time line: append-only, numbered, and chained by hashes.

Each event is written in the transaction of the change it tells of. The database refuses updates (see
``append_only``), so that what the scorecard and the replay read is what happened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.crypto import constant_time_compare, salted_hmac

from sessions import clock, nudges
from sessions.models import InterviewSession, SessionEvent

SYSTEM = "system"
CANDIDATE = "candidate"
RESTARTED = "cluster.restarted"
APPLIED = "code.applied"
PLANNED = "plan.changed"


def append(
    session: InterviewSession,
    kind: str,
    *,
    actor: AbstractBaseUser | str | None = None,
    payload: Mapping[str, Any] | None = None,
    at: datetime | None = None,
) -> SessionEvent:
    """Add an event to the session's time line; must be called inside ``transaction.atomic()``.

    ``actor`` is a user, ``CANDIDATE``, or None for the system. ``payload`` holds JSON values only and never a
    secret or another interviewer's rating, because every interviewer of the session may read it.
    """
    return append_all(session, kind, [payload or {}], actor=actor, at=at)[0]


def append_all(
    session: InterviewSession,
    kind: str,
    payloads: Sequence[Mapping[str, Any]],
    *,
    actor: AbstractBaseUser | str | None = None,
    at: datetime | None = None,
) -> list[SessionEvent]:
    """Add an event for each payload, as ``append`` does for one, and seal the time line once."""
    database = transaction.get_connection()
    if not database.in_atomic_block:
        raise RuntimeError("An event belongs to the transaction of the change it tells of.")
    if not payloads:
        return []
    if database.features.has_select_for_update:  # one writer at a time, as SQLite's transaction is anyway
        InterviewSession.objects.select_for_update().only("pk").get(pk=session.pk)
    last = SessionEvent.objects.filter(session=session).order_by("-seq").only("seq", "hash").first()
    at = at or clock.now()
    common = {"session": session, "kind": kind, "actor": actor_name(actor), "at": at}
    common["session_ms"] = clock.elapsed_ms(session, at)
    added: list[SessionEvent] = []
    for payload in payloads:
        last = _chained(SessionEvent(**common, payload=json.loads(json.dumps(dict(payload)))), last)
        added.append(last)
    SessionEvent.objects.bulk_create(added)
    session.timeline_seal = seal(added[-1].seq, added[-1].hash)
    InterviewSession.objects.filter(pk=session.pk).update(timeline_seal=session.timeline_seal)
    nudges.on_commit()
    return added


def _chained(event: SessionEvent, last: SessionEvent | None) -> SessionEvent:
    """Return an event as the one after the last one."""
    event.seq = last.seq + 1 if last else 1
    event.previous_hash = last.hash if last else ""
    event.hash = digest(event)
    return event


def actor_name(actor: AbstractBaseUser | str | None) -> str:
    """Return how the time line names an actor."""
    if isinstance(actor, AbstractBaseUser):
        return f"user:{actor.get_username()}"
    return actor or SYSTEM


def digest(event: SessionEvent) -> str:
    """Return the hex SHA-256 over the event's canonical JSON and the hash of the one before."""
    fields = {
        "session": str(event.session.uuid),
        "seq": event.seq,
        "at": event.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "session_ms": event.session_ms,
        "kind": event.kind,
        "actor": event.actor,
        "payload": event.payload,
        "previous_hash": event.previous_hash,
    }
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def seal(seq: int, newest_hash: str) -> str:
    """Return the HMAC that binds the end of a time line to this installation's secret key.

    The chain alone can be cut short, or computed anew by whoever can write to the database.
    """
    return salted_hmac("sessions.events", f"{seq}:{newest_hash}", algorithm="sha256").hexdigest()


def chain(session: InterviewSession) -> list[SessionEvent]:
    """Return all events in order, each with the session's seal as it was when they were read."""
    return list(SessionEvent.objects.filter(session=session).select_related("session").order_by("seq"))


def verify_chain(session: InterviewSession, read: Sequence[SessionEvent] | None = None) -> int | None:
    """Return the ``seq`` of the first event that does not fit the chain, or None where it is whole.

    One more than the last ``seq`` means that the end was cut off or written by somebody else. ``read`` is a
    ``chain`` that the caller has at hand.
    """
    previous, expected = "", 1
    found = chain(session) if read is None else read
    for event in found:
        if event.seq != expected or event.previous_hash != previous or event.hash != digest(event):
            return expected
        previous, expected = event.hash, expected + 1
    seals = InterviewSession.objects.values_list("timeline_seal", flat=True)
    sealed = found[-1].session.timeline_seal if found else seals.get(pk=session.pk)
    whole = constant_time_compare(sealed, seal(expected - 1, previous)) if sealed or previous else True
    return None if whole else expected
