"""Panels of one interviewer: their ratings and their notes. Never pushed, since they hold forms and are private."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from faults.packs import Criterion
from sessions import selectors
from sessions.models import InterviewSession, Rating, SessionScenario
from sessions.panels.subject import Context, Subject, own_assessment, scenarios_of

LEVEL_WORDS = {1: "Poor", 2: "Borderline", 3: "Solid", 4: "Outstanding"}


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
    rated = [rating for rating in own.ratings.all() if rating.level is not None] if own else []
    bare = sum(not rating.note and not rating.from_memory for rating in rated)
    return {
        "rated": len(rated),
        "bare": bare,
        "total": sum(len(selectors.pack_for(row).rubric) for row in scenarios_of(session)),
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
        return {"notes": subject.session.notes.filter(author=subject.user).order_by("-session_ms", "-id")}
    return {"notes": selectors.notes_for(subject.session, subject.user).order_by("-session_ms", "-id")}


def _rubric_group(scenario: SessionScenario, ratings: dict[tuple[int, str], Rating]) -> dict[str, Any]:
    rows = [
        criterion_row(scenario, criterion, ratings.get((scenario.pk, criterion.key)))
        for criterion in selectors.pack_for(scenario).rubric
    ]
    return {"scenario": scenario, "criteria": rows}
