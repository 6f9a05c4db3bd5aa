"""Middleware for a database that cannot write: a 503 that says why, in place of a server error."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse

from interview_site.refusals import refuse

log = logging.getLogger(__name__)
RETRY_S = 5


class DatabaseOutages:
    """Answers 503 where a view could not write. Nothing that was answered with success is ever lost by it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Say what is wrong; other mistakes keep their traceback."""
        if not isinstance(exception, OperationalError) or not (why := reason(exception)):
            return None
        log.warning("%s: %s", request.path, exception)
        text = f"{why} What you sent just now was not saved; what was saved before is safe. Try again in a moment."
        return refuse(request, status=503, title="Nothing can be saved right now", text=text, retry_after=RETRY_S)


def reason(exc: OperationalError) -> str:
    """Return why the database cannot write, in words; empty where that is not what went wrong."""
    text = str(exc)
    if "full" in text or "disk I/O" in text or "No space" in text:
        return "The disk is full: somebody who runs Faultline must free some space."
    return "Another process has locked the database." if "locked" in text else ""
