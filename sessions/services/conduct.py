"""What the interviewer does while the interview runs: hints and questions."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from sessions import clock, events, selectors
from sessions.errors import SessionError, StaleEdit
from sessions.models import HintRelease, SessionQuestion, SessionScenario
from sessions.services.rows import State, clean_text, locked, require

LONGEST_ANSWER = 8000
OPEN = (State.LIVE, State.PAUSED)
DISCUSSED = (State.LIVE, State.PAUSED, State.ENDED)


@transaction.atomic
def release_hint(*, scenario: SessionScenario, index: int, actor: User) -> HintRelease:
    """Show a hint to the candidate, for good; giving it twice changes nothing. Raises SessionError on ``index``."""
    session = locked(scenario.session)
    if given := HintRelease.objects.filter(scenario=scenario, index=index).first():
        return given
    require(session, OPEN, "give hints")
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


@transaction.atomic
def mark_asked(*, question: SessionQuestion, actor: User) -> SessionQuestion:
    """Remember when a question was asked; the first time counts."""
    session = locked(question.session)
    now = clock.now()
    if question.asked_at is None:
        require(session, OPEN, "ask questions")
    asked = SessionQuestion.objects.filter(pk=question.pk, asked_at__isnull=True).update(
        asked_at=now, asked_ms=clock.elapsed_ms(session, now)
    )
    if asked:
        payload = {"question": str(question.uuid), "title": question.question_version.title}
        events.append(session, "question.asked", actor=actor, payload=payload, at=now)
    question.refresh_from_db()
    return question


@transaction.atomic
def save_answer_note(*, question: SessionQuestion, text: str, version: int, actor: User) -> SessionQuestion:
    """Keep what the candidate answered. Raises StaleEdit where ``version`` is not the stored one."""
    session = locked(question.session)
    require(session, DISCUSSED, "note an answer")
    text = clean_text(text, field="text", name="The answer", limit=LONGEST_ANSWER)
    rows = SessionQuestion.objects.filter(pk=question.pk, version=version)
    saved = rows.update(answer_note=text, version=version + 1)
    question.refresh_from_db()
    if not saved:
        raise StaleEdit(question)
    events.append(session, "question.noted", actor=actor, payload={"question": str(question.uuid)})
    return question


def _hint(scenario: SessionScenario, index: int) -> tuple[int, str]:
    hints = selectors.pack_for(scenario).hints
    if not 0 <= index < len(hints):
        raise SessionError(f"This scenario has {len(hints)} hints; there is no hint {index}.", "index")
    return hints[index].tier, hints[index].text
