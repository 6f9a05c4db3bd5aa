"""Preparations at once, inside an installation: reads how many, again and again, and prints what each took.

``manage.py shell`` runs it; it reads the supervisor's process and a list of counts as JSON, and prints pairs:
seconds until all of a round were ready, and the processor time of the installation meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from django.contrib.auth.models import User

from bench.installation import SCENARIO, family_seconds
from sessions import selectors, services
from sessions.models import InterviewSession

MAX_ROUND_S = 120.0
POLL_S = 0.05
State = InterviewSession.State


def prepare(owner: User, count: int, supervisor: int) -> tuple[float, float]:
    """Prepare sessions at once; return the seconds until the last is ready and their processor time; release them."""
    versions = [row for row in selectors.pickable_scenarios() if row.scenario.slug == SCENARIO]
    made = [
        services.create_session(owner=owner, candidate_name=f"Sam {number}", scenario_versions=versions)
        for number in range(count)
    ]
    begun, before = time.monotonic(), family_seconds(supervisor)
    for session in made:
        services.prepare(session=session, actor=owner)
    rows = InterviewSession.objects.filter(pk__in=[session.pk for session in made])
    _wait(lambda: not rows.exclude(state=State.READY).exists())
    taken = time.monotonic() - begun, family_seconds(supervisor) - before
    for session in made:
        services.release(session=services.end(session=session, actor=owner), actor=owner)
    _wait(lambda: not rows.filter(released_at__isnull=True).exists())
    return taken


def _wait(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + MAX_ROUND_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(POLL_S)


def main() -> None:
    """Prepare as often and as many as asked."""
    owner = User.objects.get(username="interviewer")
    supervisor, counts = json.load(sys.stdin)
    print("\n" + json.dumps([prepare(owner, count, supervisor) for count in counts]), flush=True)


main()
