"""Ratings and assessments: each interviewer alone until submitted, and then for good.

Autosave carries the version it was made on. A stale one is refused with the stored row at hand; nothing is lost.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from faults.packs import Criterion
from sessions import clock, events, selectors
from sessions.errors import SessionError, StaleEdit
from sessions.models import Assessment, AssessmentRevision, InterviewSession, Rating, SessionScenario
from sessions.services.rows import State, clean_text, locked, require
from sessions.services.scored import score_when_submitted

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


@transaction.atomic
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
    """Save a level from 1 to 4, or None for "not assessed". ``version`` is 0 where there is no rating yet.

    Raises SessionError naming ``criterion``, ``level`` or ``note``, and StaleEdit with the stored rating.
    """
    session = locked(scenario.session)
    assessment = _editable(session, actor)
    _criterion(scenario, criterion)
    if level is not None and level not in (1, 2, 3, 4):
        raise SessionError("A level is 1, 2, 3 or 4, or empty for not assessed.", "level")
    note = clean_text(note, field="note", name="The note", limit=LONGEST_TEXT)
    rating, new = Rating.objects.get_or_create(assessment=assessment, scenario=scenario, criterion=criterion)
    rows = Rating.objects.filter(pk=rating.pk, version=version).update(
        level=level, note=note, from_memory=from_memory, version=version + 1, updated_at=clock.now()
    )
    if not rows:
        raise StaleEdit(None if new else rating)
    payload = {"scenario": str(scenario.uuid), "criterion": criterion}  # never the level: others are still blind
    events.append(session, "rating.saved", actor=actor, payload=payload)
    rating.refresh_from_db()
    return rating


@transaction.atomic
def save_assessment(*, session: InterviewSession, actor: User, version: int, **fields: str) -> Assessment:
    """Save any of ``overall``, ``takeaways``, ``strengths``, ``concerns``, ``private_notes``.

    Raises SessionError naming the field, and StaleEdit with the stored assessment.
    """
    session = locked(session)
    assessment = _editable(session, actor)
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
    """Return a text that changes with every saved change of the assessment or of one of its ratings."""
    ratings = sorted(assessment.ratings.values_list("pk", "version"))
    return "-".join(str(number) for number in (assessment.version, len(ratings), sum(v for _, v in ratings)))


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
    return not written and not assessment.ratings.filter(level__isnull=False).exists()


def _editable(session: InterviewSession, actor: User) -> Assessment:
    require(session, RATABLE, "be rated")
    assessment = _own(session, actor)
    if assessment.submitted_at is not None:
        raise SessionError("Your assessment is submitted. Open a new revision, with a reason, to change it.")
    return assessment


def _criterion(scenario: SessionScenario, key: str) -> Criterion:
    rubric = selectors.pack_for(scenario).rubric
    found = next((criterion for criterion in rubric if criterion.key == key), None)
    if found is None:
        raise SessionError(f"The rubric has no criterion {key!r}.", "criterion")
    return found


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
    ratings = assessment.ratings.select_related("scenario__scenario_version__scenario")
    return {
        **{name: getattr(assessment, name) for name in ("overall", "takeaways", "strengths", "concerns")},
        "ratings": [_rating(rating) for rating in ratings],
    }


def _rating(rating: Rating) -> dict[str, Any]:
    criterion = _criterion(rating.scenario, rating.criterion)
    return {
        "scenario": rating.scenario.scenario_version.scenario.slug,
        "criterion": rating.criterion,
        "title": criterion.title,
        "weight": criterion.weight,
        "level": rating.level,
        "anchor": criterion.anchors[rating.level] if rating.level else "",
        "note": rating.note,
        "from_memory": rating.from_memory,
    }
