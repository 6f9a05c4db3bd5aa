"""The arithmetic of ratings: mechanical, shown beside the human recommendation and never in its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LEVELS = {1: "Poor", 2: "Borderline", 3: "Solid", 4: "Outstanding"}
KINDS = ("diagnosis", "fix", "communication")
_RECOMMENDED = {"definitely_not": 1, "no": 2, "yes": 3, "strong_yes": 4}
_FAR_APART = 1.0  # levels between the score and the recommendation that deserve a second look


def evidence_of(level: int | None, note: str, from_memory: bool, answer: str = "") -> str | None:
    """Return what a rating rests on: "note", "answer" (the noted one to a question), "from_memory", or "missing".

    None where nothing was rated.
    """
    if level is None:
        return None
    if note.strip():
        return "note"
    if answer.strip():
        return "answer"
    return "from_memory" if from_memory else "missing"


def computed(ratings: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return ``weighted_score`` (1 to 4, None where nothing is rated) and ``coverage`` (0 to 1, by weight).

    A criterion that was not assessed counts in neither numerator nor denominator of the score.
    """
    rows = [(rating["weight"], rating["level"]) for rating in ratings]
    total = sum(weight for weight, _ in rows)
    rated = [(weight, level) for weight, level in rows if level is not None]
    weights = sum(weight for weight, _ in rated)
    return {
        "weighted_score": round(sum(w * level for w, level in rated) / weights, 2) if weights else None,
        "coverage": round(weights / total, 3) if total else 0.0,
    }


def by_kind(ratings: Iterable[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the weighted score of the criteria of each kind; those without a kind count in none."""
    rows = list(ratings)
    return {kind: computed(row for row in rows if row["kind"] == kind)["weighted_score"] for kind in KINDS}


def differs(overall: str, score: float | None) -> bool:
    """Whether the recommendation lies a level or more away from the weighted score."""
    wanted = _RECOMMENDED.get(overall)
    return wanted is not None and score is not None and abs(wanted - score) >= _FAR_APART
