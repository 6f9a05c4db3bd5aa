"""Preparations at once, inside an installation: reads how many, again and again, and prints how long each took.

``manage.py shell`` runs it; it reads a JSON list of counts and prints one of seconds, until all of a round are ready.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from django.contrib.auth.models import User

from sessions import selectors, services
from sessions.models import InterviewSession

MAX_ROUND_S = 120.0
POLL_S = 0.05
State = InterviewSession.State


def prepare(owner: User, count: int) -> float:
    """Prepare sessions at once; return the seconds until the last is ready, and release them."""
    versions = selectors.pickable_scenarios()[:1]
    made = [
        services.create_session(owner=owner, candidate_name=f"Sam {number}", scenario_versions=versions)
        for number in range(count)
    ]
    begun = time.monotonic()
    for session in made:
        services.prepare(session=session, actor=owner)
    rows = InterviewSession.objects.filter(pk__in=[session.pk for session in made])
    _wait(lambda: not rows.exclude(state=State.READY).exists())
    seconds = time.monotonic() - begun
    for session in made:
        services.release(session=services.end(session=session, actor=owner), actor=owner)
    _wait(lambda: not rows.filter(released_at__isnull=True).exists())
    return seconds


def _wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + MAX_ROUND_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(POLL_S)


def main() -> None:
    """Prepare as often and as many as asked."""
    owner = User.objects.get(username="interviewer")
    print("\n" + json.dumps([prepare(owner, count) for count in json.load(sys.stdin)]), flush=True)


main()
