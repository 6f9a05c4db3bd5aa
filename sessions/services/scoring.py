"""Ratings and assessments: each interviewer alone until submitted, and then for good.

Autosave carries the version it was made on. A stale one is refused with the stored row at hand; nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import prefetch_related_objects

from sessions import clock, events, scores, subjects
from sessions.errors import SessionError, StaleEdit
from sessions.models import (
    Assessment,
    AssessmentRevision,
    InterviewSession,
    QuestionRecord,
    Rating,
    SessionScenario,
)
from sessions.services.rows import State, clean_text, locked, require
from sessions.services.scored import score_when_submitted
from sessions.subjects import RatedSubject, subject_key

RATABLE = (State.LIVE, State.PAUSED, State.ENDED, State.SCORED)
LONGEST_TEXT = 8000
NO_RECOMMENDATION = "Choose a recommendation before you submit."
NOTHING_TO_SUBMIT = (
    "There is nothing to submit yet: no criterion is rated, and no take-aways, strengths or concerns are written. "
    "Rate what you saw, or write it down here."
)
TEXTS = {
    "takeaways": "The key take-aways",
    "strengths": "The strengths",
    "concerns": "The concerns",
    "private_notes": "The private notes",
}


def save_rating(
    *,
    scenario: SessionScenario,
    criterion: str,
    level: int | None,
    note: str = "",
    version: int,
    actor: User,
    from_memory: bool = False,
) -> Rating:
    """Save a scenario's criterion; see ``save_subject_rating``."""
    return save_subject_rating(
        session=scenario.session,
        subject=subjects.of_scenario(scenario),
        criterion=criterion,
        level=level,
        note=note,
        version=version,
        actor=actor,
        from_memory=from_memory,
    )


@transaction.atomic
def save_subject_rating(
    *,
    session: InterviewSession,
    subject: RatedSubject,
    criterion: str,
    level: int | None,
    note: str = "",
    version: int,
    actor: User,
    from_memory: bool = False,
) -> Rating:
    """Save a level from 1 to 4, or None for "not assessed". ``version`` is 0 where there is no rating yet.

    The answer to a question is rated with its record (``save_question_record``). Raises SessionError naming
    ``criterion``, ``level`` or ``note``, and StaleEdit with the stored rating.
    """
    session = locked(session)
    assessment = editable_assessment(session, actor)
    if subject.criterion(criterion) is None:
        raise SessionError(f"The rubric has no criterion {criterion!r}.", "criterion")
    if subject.scenario is not None and not subject.scenario.is_open:
        raise SessionError("Its part has not begun, so that there is nothing to rate yet.", "criterion")
    check_level(level)
    note = clean_text(note, field="note", name="The note", limit=LONGEST_TEXT)
    rating, new = Rating.objects.get_or_create(assessment=assessment, criterion=criterion, **subject.columns)
    rows = Rating.objects.filter(pk=rating.pk, version=version).update(
        level=level, note=note, from_memory=from_memory, version=version + 1, updated_at=clock.now()
    )
    if not rows:
        raise StaleEdit(None if new else rating)
    # Never the level: others are still blind.
    events.append(session, "rating.saved", actor=actor, payload={**subject.reference, "criterion": criterion})
    rating.refresh_from_db()
    return rating


def check_level(level: int | None) -> None:
    """Refuse what is no level."""
    if level is not None and level not in (1, 2, 3, 4):
        raise SessionError("A level is 1, 2, 3 or 4, or empty for not assessed.", "level")


@transaction.atomic
def save_assessment(*, session: InterviewSession, actor: User, version: int, **fields: str) -> Assessment:
    """Save any of ``overall``, ``takeaways``, ``strengths``, ``concerns``, ``private_notes``.

    Raises SessionError naming the field, and StaleEdit with the stored assessment.
    """
    session = locked(session)
    assessment = editable_assessment(session, actor)
    changes = {name: _clean_field(name, value) for name, value in fields.items()}
    rows = Assessment.objects.filter(pk=assessment.pk, version=version)
    saved = rows.update(version=version + 1, **changes)
    assessment.refresh_from_db()
    if not saved:
        raise StaleEdit(assessment)
    events.append(session, "assessment.saved", actor=actor, payload={"fields": sorted(changes)})
    return assessment


@transaction.atomic
def submit_assessment(*, session: InterviewSession, actor: User, reviewed: str | None = None) -> Assessment:
    """Freeze this interviewer's assessment. When it was the last one, the session is scored.

    The cluster is kept until it is released, so that the session can still be reopened. ``reviewed`` is the
    ``draft_version`` that the interviewer has read; a newer draft is refused, since nobody has read that.
    Raises SessionError naming ``overall`` where the recommendation is missing, or ``takeaways`` where all else is.
    """
    session = locked(session)
    require(session, (State.ENDED, State.SCORED), "submit an assessment")
    assessment = _own(session, actor)
    if assessment.submitted_at is not None:
        return assessment
    require_content(assessment)
    if reviewed is not None and reviewed != draft_version(assessment):
        raise SessionError("Your assessment has changed since you read it. Read it again, then submit.")
    _freeze(assessment, actor)
    events.append(session, "assessment.submitted", actor=actor, payload={"revision": assessment.revision})
    score_when_submitted(session, actor)
    return assessment


def require_content(assessment: Assessment) -> None:
    """Refuse to submit without a recommendation, and one without a level or a word to support it."""
    if assessment.overall == Assessment.Recommendation.NO_DECISION:
        raise SessionError(NO_RECOMMENDATION, "overall")
    if _is_empty(assessment):
        raise SessionError(NOTHING_TO_SUBMIT, "takeaways")


def draft_version(assessment: Assessment) -> str:
    """Return a text that changes with every saved change of the assessment, a rating, or the record of a question."""
    rows = (assessment.ratings, assessment.question_records)
    versions = [version for found in rows for version in found.values_list("version", flat=True)]
    asked = assessment.question_records.exclude(asked_at=None).count()
    return "-".join(str(number) for number in (assessment.version, len(versions), sum(versions), asked))


@transaction.atomic
def revise_assessment(*, session: InterviewSession, actor: User, reason: str) -> Assessment:
    """Open a submitted assessment for a new revision. What was submitted stays as it was.

    Raises SessionError naming ``reason``.
    """
    session = locked(session)
    assessment = _own(session, actor)
    reason = clean_text(reason, field="reason", name="The reason", limit=300, required=True)
    if assessment.submitted_at is None:
        raise SessionError("This assessment is still open: edit it.")
    assessment.submitted_at, assessment.revision_reason = None, reason
    assessment.revision += 1
    assessment.save(update_fields=["submitted_at", "revision_reason", "revision"])
    payload = {"revision": assessment.revision, "reason": reason}
    events.append(session, "assessment.reopened", actor=actor, payload=payload)
    return assessment


def _own(session: InterviewSession, actor: User) -> Assessment:
    assessment = Assessment.objects.filter(session=session, interviewer=actor).first()
    if assessment is None:
        raise SessionError("Only the interviewers of this session assess it.")
    return assessment


def _is_empty(assessment: Assessment) -> bool:
    """Whether an interview that took place would be judged with neither a level nor a word."""
    if clock.started_at(assessment.session) is None:
        return False
    written = any(getattr(assessment, name).strip() for name in ("takeaways", "strengths", "concerns"))
    rated = assessment.ratings.filter(level__isnull=False).exists()
    return not (written or rated or assessment.question_records.exclude(answer="").exists())


def editable_assessment(session: InterviewSession, actor: User) -> Assessment:
    """Return the actor's own assessment. Raises SessionError before the start, for strangers, and once submitted."""
    require(session, RATABLE, "be rated")
    assessment = _own(session, actor)
    if assessment.submitted_at is not None:
        raise SessionError("Your assessment is submitted. Open a new revision, with a reason, to change it.")
    return assessment


def _clean_field(name: str, value: str) -> str:
    if name == "overall":
        if value not in Assessment.Recommendation.values:
            raise SessionError(f"{value!r} is not a recommendation.", "overall")
        return value
    if name not in TEXTS:
        raise SessionError(f"An assessment has no field {name!r}.", name)
    return clean_text(value, field=name, name=TEXTS[name], limit=LONGEST_TEXT)


def _freeze(assessment: Assessment, actor: User) -> None:
    now = clock.now()
    assessment.submitted_at = now
    assessment.first_submitted_at = assessment.first_submitted_at or now
    assessment.save(update_fields=["submitted_at", "first_submitted_at"])
    AssessmentRevision.objects.create(
        assessment=assessment,
        number=assessment.revision,
        reason=assessment.revision_reason,
        submitted_at=now,
        submitted_by=actor,
        content=_content(assessment),
    )


def _content(assessment: Assessment) -> dict[str, Any]:
    session = assessment.session
    scenarios = session.scenarios.select_related("scenario_version__scenario", "run").order_by("position")
    questions = session.questions.select_related("question_version__question").order_by("position")
    found = subjects.of_session(session, scenarios, questions)
    return {
        **{name: getattr(assessment, name) for name in ("overall", "takeaways", "strengths", "concerns")},
        "ratings": ratings_of(assessment, found),
        "questions": records_of(assessment),
    }


def ratings_of(assessment: Assessment, found: Iterable[RatedSubject]) -> list[dict[str, Any]]:
    """Return every stored rating as plain data, in the words of its rubric as they are now."""
    rated = {subject.key: subject for subject in found}
    answers = {record.question_id: record.answer for record in assessment.question_records.all()}
    return [
        _rating(rating, rated[subject_key(rating)], answers.get(rating.question_id or 0, ""))
        for rating in assessment.ratings.all()
        if subject_key(rating) in rated
    ]


def records_of(assessment: Assessment) -> list[dict[str, Any]]:
    """Return the records of questions as plain data, with the words of the follow-ups and hints that were used."""
    prefetch_related_objects([assessment], "question_records__question__question_version")
    return [_question_record(row) for row in assessment.question_records.all()]


def _question_record(row: QuestionRecord) -> dict[str, Any]:
    wording = row.question.question_version
    return {
        "question": str(row.question.uuid),
        "asked_at": row.asked_at.isoformat() if row.asked_at else None,
        "asked_ms": row.asked_ms,
        "answer": row.answer,
        "follow_ups": [wording.follow_ups[position] for position in row.follow_ups],
        "hints": [wording.hints[position] for position in row.hints],
    }


def _rating(rating: Rating, subject: RatedSubject, answer: str) -> dict[str, Any]:
    criterion = subject.criterion(rating.criterion)
    return {
        **subject.names,
        "criterion": rating.criterion,
        "title": criterion.title if criterion else rating.criterion,
        "weight": criterion.weight if criterion else 0,
        "level": rating.level,
        "anchor": criterion.anchors[rating.level] if criterion and rating.level else "",
        "note": rating.note,
        "from_memory": rating.from_memory,
        "evidence": scores.evidence_of(rating.level, rating.note, rating.from_memory, answer),
    }
