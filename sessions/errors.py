"""Refusals of the session services, in sentences for people.

SessionError        the request cannot be done; names the field it is about
  StaleEdit         somebody else (or another tab) saved first; nothing was overwritten
  TooOften          the same was asked for too often; it may be tried again after ``retry_after`` seconds
NeedsPerson         a phase cannot go on before a person has run a command; it is looked at again by itself
"""

from __future__ import annotations

from typing import Any

from faults.errors import FaultError


class SessionError(Exception):
    """A refusal that a person reads. ``field`` names the input it is about; empty means the whole request."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class StaleEdit(SessionError):
    """The edit was made on an older version. ``current`` is the row as it is now, so that a page can show both."""

    def __init__(self, current: Any = None, field: str = "version") -> None:
        super().__init__(
            "This was changed elsewhere since you opened it. Your text is kept here: compare, then save.", field
        )
        self.current = current


class TooOften(SessionError):
    """The same was asked for too often; it may be tried again after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NeedsPerson(FaultError):
    """Something is left in a cluster that only a person can take away; the message holds the command."""
