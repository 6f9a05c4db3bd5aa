"""Panels of one interviewer: their ratings and their notes. Never pushed, since they hold forms and are private."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.urls import reverse

from faults.packs import Criterion
from sessions import scores, selectors, subjects
from sessions.models import Assessment, InterviewSession, QuestionRecord, Rating
from sessions.panels.subject import (
    Context,
    Subject,
    open_scenarios_of,
    own_assessment,
    own_records_of,
    questions_of,
    scenarios_of,
)
from sessions.services.notes import LONGEST_NOTE
from sessions.services.scoring import LONGEST_TEXT
from sessions.subjects import RatedSubject, subject_key

LEVEL_WORDS = scores.LEVELS
Ratings = Mapping[tuple[str, str], Rating]


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A criterion as it would be submitted. ``evidence`` is a word of ``scores.evidence_of``; ``goal`` is an id."""

    id: str
    goal: str
    title: str
    weight: int
    level: int | None
    word: str
    anchor: str
    note: str
    evidence: str | None


def rubric(subject: Subject) -> Context:
    """Return the criteria of the scenarios, and apart from them those of parts and of the whole interview.

    All with this interviewer's levels. Criteria of questions stand with the questions' records.
    """
    session = subject.session
    scenarios = [subjects.of_scenario(row) for row in scenarios_of(session) if not row.is_skipped]
    progress = progress_of(session, subject.user) if subject.user else {}
    return {**common_rubric(subject), "groups": _groups(session, subject.user, scenarios), **progress}


def common_rubric(subject: Subject) -> Context:
    """Return the criteria of parts and of the whole interview."""
    session = subject.session
    found = subjects.of_session(session, (), ())
    return {"common": _groups(session, subject.user, found), "assessment": own_assessment(session, subject.user)}


def progress_of(session: InterviewSession, user: User) -> dict[str, int]:
    """Return how many criteria the user has rated, of how many, and how many without evidence or "from memory".

    Those of questions are counted with the questions.
    """
    own = own_assessment(session, user)
    ratings = [row for row in own.ratings.all() if row.question_id is None] if own else []
    rated = [evidence for row in ratings if (evidence := evidence_of(row, {})) is not None]
    found = subjects.of_session(session, [row for row in scenarios_of(session) if not row.is_skipped], ())
    return {
        "rated": len(rated),
        "bare": rated.count("missing"),
        "total": sum(len(one.criteria) for one in found),
    }


def review(session: InterviewSession, user: User) -> Context:
    """Return everything the user would submit now: each criterion, what is missing, and the score beside it."""
    own = own_assessment(session, user)
    ratings, records, discussed = ratings_by_key(own), own_records_of(session, own), discussed_questions(session, own)
    questions = [row for row in questions_of(session) if row.pk in discussed]
    found = subjects.of_session(session, open_scenarios_of(session), questions)
    groups = [
        (one, records.get(one.question.pk) if one.question else None, list(_review_rows(one, ratings, records)))
        for one in found
    ]
    rows = [row for _, _, part in groups for row in part]
    computed = scores.computed({"weight": row.weight, "level": row.level} for row in rows)
    return {
        "groups": groups,
        "unrated": [row for row in rows if row.level is None],
        "bare": [row for row in rows if row.evidence == "missing"],
        **computed,
        "differs": own is not None and scores.differs(own.overall, computed["weighted_score"]),
    }


def ratings_by_key(own: Assessment | None) -> Ratings:
    """Return the ratings of an assessment by the keys of subject and criterion."""
    return {(subject_key(row), row.criterion): row for row in own.ratings.all()} if own else {}


def discussed_questions(session: InterviewSession, own: Assessment | None) -> set[int]:
    """Return the primary keys of the questions that were asked, answered or rated; the others are no gap."""
    if own is None:
        return set()
    recorded = {number for number, row in own_records_of(session, own).items() if row.asked_at or row.answer}
    return recorded | {row.question_id for row in own.ratings.all() if row.question_id and row.level}


def criterion_row(subject: RatedSubject, criterion: Criterion, rating: Rating | None) -> Context:
    """Return one criterion as its form shows it."""
    level = rating.level if rating else None
    return {
        "key": criterion.key,
        "title": criterion.title,
        "weight": criterion.weight,
        "source": criterion.source,
        "kind": criterion.kind,
        "levels": [(number, LEVEL_WORDS[number], text, number == level) for number, text in anchors(criterion)],
        "assessed": level is not None,
        "rating": rating,
        "id": f"{subject.key}-{criterion.key}",
        "limit": LONGEST_TEXT,
    }


def anchors(criterion: Criterion) -> list[tuple[int, str]]:
    """Return the four levels from the lowest to the highest with their observable texts."""
    return sorted(criterion.anchors.items())


def notes(subject: Subject) -> Context:
    """Return this interviewer's notes, newest first, with everybody's once they have submitted."""
    if subject.user is None:
        return {"notes": ()}
    own = own_assessment(subject.session, subject.user)
    if own and own.first_submitted_at is None:
        found = subject.session.notes.filter(author=subject.user)
    else:
        found = selectors.notes_for(subject.session, subject.user)
    return {"notes": found.order_by("-session_ms", "-id"), "note_limit": LONGEST_NOTE}


def _groups(session: InterviewSession, user: User | None, found: Iterable[RatedSubject]) -> list[Context]:
    ratings = ratings_by_key(own_assessment(session, user))
    return [{"subject": one, "criteria": _criteria(session, one, ratings)} for one in found]


def _criteria(session: InterviewSession, subject: RatedSubject, ratings: Ratings) -> list[Context]:
    return [
        {**criterion_row(subject, one, ratings.get((subject.key, one.key))), "url": _address(session, subject, one)}
        for one in subject.criteria
    ]


def _address(session: InterviewSession, subject: RatedSubject, criterion: Criterion) -> str:
    if subject.scenario:
        return reverse("session-rating", args=[session.uuid, subject.scenario.uuid, criterion.key])
    if subject.part is not None:
        return reverse("session-part-rating", args=[session.uuid, subject.part, criterion.key])
    return reverse("session-interview-rating", args=[session.uuid, criterion.key])


def evidence_of(rating: Rating, records: Mapping[int, QuestionRecord]) -> str | None:
    """Return what a rating rests on, as a word of ``scores.evidence_of``; for a question also its noted answer."""
    record = records.get(rating.question_id or 0)
    return scores.evidence_of(rating.level, rating.note, rating.from_memory, record.answer if record else "")


def _review_rows(
    subject: RatedSubject, ratings: Ratings, records: Mapping[int, QuestionRecord]
) -> Iterable[ReviewRow]:
    for criterion in subject.criteria:
        rating = ratings.get((subject.key, criterion.key))
        level = rating.level if rating else None
        row_id = f"{subject.key}-{criterion.key}"
        yield ReviewRow(
            id=row_id,
            goal=f"question-{subject.question.pk}" if subject.question else f"criterion-{row_id}",
            title=criterion.title,
            weight=criterion.weight,
            level=level,
            word=LEVEL_WORDS[level] if level else "Not assessed",
            anchor=criterion.anchors[level] if level else "",
            note=rating.note if rating else "",
            evidence=evidence_of(rating, records) if rating else None,
        )
