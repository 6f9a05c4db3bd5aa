"""Hints, released while the interview runs."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from sessions import clock, events, selectors
from sessions.errors import SessionError
from sessions.models import HintRelease, SessionScenario
from sessions.services.rows import State, locked, require

OPEN = (State.LIVE, State.PAUSED)


@transaction.atomic
def release_hint(*, scenario: SessionScenario, index: int, actor: User) -> HintRelease:
    """Show a hint to the candidate, for good; giving it twice changes nothing. Raises SessionError on ``index``."""
    session = locked(scenario.session)
    if given := HintRelease.objects.filter(scenario=scenario, index=index).first():
        return given
    require(session, OPEN, "give hints")
    if not scenario.is_open:
        raise SessionError("Its part has not begun: the candidate would learn of it by the hint.", "index")
    tier, text = _hint(scenario, index)
    now = clock.now()
    hint = HintRelease.objects.create(
        scenario=scenario,
        index=index,
        tier=tier,
        text=text,
        at=now,
        session_ms=clock.elapsed_ms(session, now),
        by=actor,
    )
    payload = {"scenario": str(scenario.uuid), "index": index, "tier": tier, "text": text}
    events.append(session, "hint.released", actor=actor, payload=payload, at=now)
    return hint


def _hint(scenario: SessionScenario, index: int) -> tuple[int, str]:
    hints = selectors.pack_for(scenario).hints
    if not 0 <= index < len(hints):
        raise SessionError(f"This scenario has {len(hints)} hints; there is no hint {index}.", "index")
    return hints[index].tier, hints[index].text
