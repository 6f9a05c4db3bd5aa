"""Rows under lock, the compare-and-swap of their state, and checked input, shared by every service."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from faults.plain_text import plain
from sessions.errors import SessionError
from sessions.models import InterviewSession

State = InterviewSession.State


def locked(session: InterviewSession | int) -> InterviewSession:
    """Return the session (or that of this id) fresh from the database, locked until the transaction ends."""
    pk = session if isinstance(session, int) else session.pk
    return InterviewSession.objects.select_for_update().get(pk=pk)


def move(session: InterviewSession, old: Collection[State], new: State, **fields: Any) -> None:
    """Compare-and-swap the state together with ``fields``; raise SessionError where it was in none of ``old``."""
    rows = InterviewSession.objects.filter(pk=session.pk, state__in=old).update(state=new, **fields)
    if rows != 1:
        session.refresh_from_db()
        raise SessionError(_refusal(session.state, old))
    session.refresh_from_db()


def require(session: InterviewSession, states: Collection[State], doing: str) -> None:
    """Raise SessionError unless the session is in one of ``states``; ``doing`` completes "to ..."."""
    if session.state not in states:
        raise SessionError(f"This session is {_word(session.state)}; it must be {_words(states)} to {doing}.")


def clean_text(value: str, *, field: str, name: str, limit: int, required: bool = False) -> str:
    """Return the text without surrounding space and with every character in sight (``faults.plain_text``).

    Raises SessionError at ``field`` where it cannot be stored.
    """
    text = value.replace("\r\n", "\n").strip()
    if required and not text:
        raise SessionError(f"{name} must not be empty.", field)
    if len(text) > limit:
        raise SessionError(f"{name} has {len(text)} characters; at most {limit} fit.", field)
    if "\x00" in text:
        raise SessionError(f"{name} contains a null character.", field)
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise SessionError(f"{name} contains half of a character.", field)
    return plain(text)


def _refusal(state: str, old: Collection[State]) -> str:
    return f"This session is {_word(state)}; only a session that is {_words(old)} can do that."


def _word(state: str) -> str:
    return str(State(state).label).lower()


def _words(states: Collection[State]) -> str:
    return " or ".join(_word(state) for state in states)
