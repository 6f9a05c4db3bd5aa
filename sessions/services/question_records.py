"""Records of questions: each interviewer's own until submitted, as ratings are.

A record is saved as one form with the level of its answer, so one version guards all of it.
"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import User
from django.db import transaction

from sessions import clock, events, subjects
from sessions.errors import SessionError, StaleEdit
from sessions.models import Assessment, QuestionRecord, Rating, SessionQuestion
from sessions.services.rows import State, clean_text, locked, require
from sessions.services.scoring import check_level, editable_assessment

MAX_ANSWER_LENGTH = 8000
OPEN = (State.LIVE, State.PAUSED)


@transaction.atomic
def mark_asked(*, question: SessionQuestion, actor: User) -> QuestionRecord:
    """Remember in the actor's own record when the question was asked; the first time counts."""
    session = locked(question.session)
    assessment = editable_assessment(session, actor)
    record = _record(assessment, question)
    if record.asked_at is not None:
        return record
    require(session, OPEN, "ask questions")
    now = clock.now()
    record.asked_at, record.asked_ms = now, clock.elapsed_ms(session, now)
    record.save()
    events.append(session, "question.asked", actor=actor, payload={"question": str(question.uuid)}, at=now)
    return record


@transaction.atomic
def save_question_record(
    *,
    question: SessionQuestion,
    answer: str,
    version: int,
    actor: User,
    follow_ups: Collection[int] = (),
    hints: Collection[int] = (),
    level: int | None = None,
    from_memory: bool = False,
) -> QuestionRecord:
    """Save the noted answer, which follow-ups and hints were used (by position), and the level of the answer.

    ``version`` is 0 where there is no record yet. Raises SessionError naming ``answer``, ``follow_ups``, ``hints`` or
    ``level``, and StaleEdit with the stored record.
    """
    session = locked(question.session)
    assessment = editable_assessment(session, actor)
    check_level(level)
    wording = question.question_version
    changes = {
        "answer": clean_text(answer, field="answer", name="The answer", limit=MAX_ANSWER_LENGTH),
        "follow_ups": _positions("follow_ups", follow_ups, len(wording.follow_ups)),
        "hints": _positions("hints", hints, len(wording.hints)),
    }
    record = _record(assessment, question)
    rows = QuestionRecord.objects.filter(pk=record.pk, version=version)
    if not rows.update(**changes, version=version + 1, updated_at=clock.now()):
        raise StaleEdit(record if record.version else None)
    _save_level(assessment, question, level, from_memory)
    # Never what it says: the time line is everybody's, and the others are still blind.
    events.append(session, "question.noted", actor=actor, payload={"question": str(question.uuid)})
    record.refresh_from_db()
    return record


def _record(assessment: Assessment, question: SessionQuestion) -> QuestionRecord:
    record, _ = QuestionRecord.objects.get_or_create(assessment=assessment, question=question)
    return record


def _positions(name: str, chosen: Collection[int], count: int) -> list[int]:
    wrong = [position for position in chosen if not 0 <= position < count]
    if wrong:
        words = name.replace("_", "-")
        raise SessionError(f"This question has {count} {words}; there is none at position {wrong[0]}.", name)
    return sorted(set(chosen))


def _save_level(assessment: Assessment, question: SessionQuestion, level: int | None, from_memory: bool) -> None:
    subject = subjects.of_question(question)
    rating = Rating.objects.filter(assessment=assessment, question=question).first()
    if rating is None and level is None and not from_memory:
        return
    rating = rating or Rating(assessment=assessment, criterion=subject.criteria[0].key, **subject.columns)
    rating.level, rating.from_memory, rating.updated_at = level, from_memory, clock.now()
    rating.version += 1
    rating.save()
