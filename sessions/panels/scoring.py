"""Panels of one interviewer: their ratings and their notes. Never pushed, since they hold forms and are private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from faults.packs import Criterion
from sessions import scores, selectors
from sessions.models import InterviewSession, Rating, SessionScenario
from sessions.panels.subject import Context, Subject, own_assessment, scenarios_of
from sessions.services.notes import LONGEST_NOTE
from sessions.services.scoring import LONGEST_TEXT

LEVEL_WORDS = scores.LEVELS


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A criterion as it would be submitted. ``evidence`` is a word of ``scores.evidence_of``."""

    id: str
    title: str
    weight: int
    level: int | None
    word: str
    anchor: str
    note: str
    evidence: str | None


def rubric(subject: Subject) -> Context:
    """Return each scenario's criteria with their anchors and this interviewer's levels."""
    assessment = own_assessment(subject.session, subject.user)
    found = assessment.ratings.all() if assessment else ()
    ratings = {(rating.scenario_id, rating.criterion): rating for rating in found}
    groups = [_rubric_group(row, ratings) for row in scenarios_of(subject.session)]
    progress = progress_of(subject.session, subject.user) if subject.user else {}
    return {"groups": groups, "assessment": assessment, **progress}


def progress_of(session: InterviewSession, user: User) -> dict[str, int]:
    """Return how many criteria the user has rated, of how many, and how many without evidence or "from memory"."""
    own = own_assessment(session, user)
    found = [scores.evidence_of(row.level, row.note, row.from_memory) for row in own.ratings.all()] if own else []
    rated = [evidence for evidence in found if evidence is not None]
    return {
        "rated": len(rated),
        "bare": rated.count("missing"),
        "total": sum(len(selectors.pack_for(row).rubric) for row in scenarios_of(session)),
    }


def review(session: InterviewSession, user: User) -> Context:
    """Return everything the user would submit now: each criterion, what is missing, and the score beside it."""
    own = own_assessment(session, user)
    ratings = {(row.scenario_id, row.criterion): row for row in own.ratings.all()} if own else {}
    groups = [
        (row, [_review_row(row, one, ratings.get((row.pk, one.key))) for one in selectors.pack_for(row).rubric])
        for row in scenarios_of(session)
    ]
    rows = [row for _, found in groups for row in found]
    computed = scores.computed({"weight": row.weight, "level": row.level} for row in rows)
    return {
        "groups": groups,
        "unrated": [row for row in rows if row.level is None],
        "bare": [row for row in rows if row.evidence == "missing"],
        **computed,
        "differs": own is not None and scores.differs(own.overall, computed["weighted_score"]),
    }


def criterion_row(scenario: SessionScenario, criterion: Criterion, rating: Rating | None) -> Context:
    """Return one criterion as its form shows it."""
    level = rating.level if rating else None
    return {
        "key": criterion.key,
        "title": criterion.title,
        "weight": criterion.weight,
        "source": criterion.source,
        "levels": [(number, LEVEL_WORDS[number], text, number == level) for number, text in anchors(criterion)],
        "assessed": level is not None,
        "rating": rating,
        "id": f"{scenario.pk}-{criterion.key}",
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


def _rubric_group(scenario: SessionScenario, ratings: dict[tuple[int, str], Rating]) -> dict[str, Any]:
    rows = [
        criterion_row(scenario, criterion, ratings.get((scenario.pk, criterion.key)))
        for criterion in selectors.pack_for(scenario).rubric
    ]
    return {"scenario": scenario, "criteria": rows}


def _review_row(scenario: SessionScenario, criterion: Criterion, rating: Rating | None) -> ReviewRow:
    level = rating.level if rating else None
    return ReviewRow(
        id=f"{scenario.pk}-{criterion.key}",
        title=criterion.title,
        weight=criterion.weight,
        level=level,
        word=LEVEL_WORDS[level] if level else "Not assessed",
        anchor=criterion.anchors[level] if level else "",
        note=rating.note if rating else "",
        evidence=scores.evidence_of(level, rating.note, rating.from_memory) if rating else None,
    )
