"""Middleware that limits what one person changes in a minute, and that answers where views were asked too often.

The count is this process's own: it protects the machine from a runaway script, so it must cost nothing and work while
Redis and the database do not. Signing in and joining are counted in the database (``sessions.limits``).
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse

from interview_site.refusals import refuse
from sessions.errors import TooOften
from sessions.selectors import CANDIDATE_KEY

MAX_WRITES = 60
WINDOW_S = 60.0
MAX_PEOPLE = 10_000  # before those who have been silent for a minute are forgotten
SAFE = ("GET", "HEAD", "OPTIONS")
ALWAYS = re.compile(r"/(logout|end|panic)/?$")  # whoever wants to close a door must not wait


class WriteLimit:
    """Answers 429 to whoever has changed more than ``MAX_WRITES`` things in ``WINDOW_S`` seconds."""

    def __init__(
        self, get_response: Callable[[HttpRequest], HttpResponse], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.get_response = get_response
        self._clock = clock
        self._times: dict[str, deque[float]] = {}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        counts = request.method not in SAFE and not ALWAYS.search(request.path)
        if counts and (who := _who(request)) and (wait := self._wait(who)):
            return _too_often(request, f"You changed more than {MAX_WRITES} things within a minute.", wait)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer where a view or service has counted by itself."""
        if isinstance(exception, TooOften):
            return _too_often(request, exception.message, exception.retry_after)
        return None

    def _wait(self, who: str) -> int:
        now = self._clock()
        times = self._times.setdefault(who, deque(maxlen=MAX_WRITES))
        if len(times) == MAX_WRITES and now - times[0] < WINDOW_S:
            return math.ceil(times[0] + WINDOW_S - now)
        times.append(now)
        if len(self._times) > MAX_PEOPLE:
            self._times = {who: each for who, each in self._times.items() if now - each[-1] < WINDOW_S}
        return 0


def _who(request: HttpRequest) -> str:
    """Return the person: a user, or a candidate's browser. Strangers have limits of their own."""
    if user := request.session.get(SESSION_KEY):
        return f"user {user}"
    if request.session.get(CANDIDATE_KEY):
        return f"browser {request.session.session_key}"
    return ""


def _too_often(request: HttpRequest, reason: str, wait: int) -> HttpResponse:
    text = f"{reason} Nothing was done just now: wait {wait} seconds, then try again."
    return refuse(request, status=429, title="Too many requests", text=text, retry_after=wait)
