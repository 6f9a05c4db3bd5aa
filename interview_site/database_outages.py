"""Middleware for a database that cannot write or is away: a 503 that says why, in place of a server error."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse

from interview_site.outages import first_line
from interview_site.refusals import refuse
from sessions.services.ending import is_full, is_locked

log = logging.getLogger(__name__)
RETRY_S = 5
TITLE = "Nothing can be saved right now"


class DatabaseOutages:
    """Answers 503 where a view could not write. Nothing that was answered with success is ever lost by it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Say what is wrong; other mistakes keep their traceback."""
        return answer(request, exception)


def answer(request: HttpRequest, exception: BaseException | None) -> HttpResponse | None:
    """Return the page for a database in trouble; None where it is something else. It asks the database nothing."""
    if not isinstance(exception, OperationalError) or not (why := reason(exception)):
        return None
    log.warning("%s: %s", request.path, first_line(exception))
    text = f"{why} What you sent just now was not saved; what was saved before is safe. Try again in a moment."
    return refuse(request, status=503, title=TITLE, text=text, retry_after=RETRY_S, is_signed_in_known=False)


def reason(exc: OperationalError) -> str:
    """Return why the database cannot be used, in words; empty where that is not what went wrong."""
    if is_full(exc):
        return "The disk is full: somebody who runs Faultline must free some space."
    if is_locked(exc):
        return "Another process has locked the database."
    # SQLite says so of mistakes of ours, too; PostgreSQL does not.
    return "" if connection.vendor == "sqlite" else "The database does not answer."
