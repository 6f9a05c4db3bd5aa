"""Assessments and records of questions in a scorecard, as far as the blind rule lets the viewer see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import prefetch_related_objects

from faults.packs import Criterion
from sessions import scores, selectors
from sessions.models import Assessment, InterviewSession, SessionQuestion
from sessions.scorecards.times import timestamp
from sessions.services.scoring import ratings_of, records_of
from sessions.subjects import Kind, RatedSubject

_NOT_RATED = {"level": None, "note": "", "from_memory": False}
_Key = tuple[str, str, str, int | None, str]


def shown(session: InterviewSession, viewer: User) -> list[Assessment]:
    """Return the viewer's own assessment and those that others have submitted; never another's draft."""
    others = selectors.is_past_blind_phase(session, viewer)
    rows = [
        row
        for row in session.assessments.all()
        if row.interviewer == viewer or (others and row.first_submitted_at is not None)
    ]
    prefetch_related_objects(rows, "revisions", "ratings")
    return rows


def assessment(row: Assessment, found: Iterable[RatedSubject]) -> dict[str, Any]:
    """Return an assessment: as it was submitted, word for word, or its owner's draft."""
    content = _submitted_content(row)
    status = "submitted" if content else "draft"
    content = content or _draft_content(row, found)
    rows = list(_ratings(content, found))
    figures = scores.computed(rows)
    return {
        "interviewer": row.interviewer.get_username(),
        "status": status,
        "revision": content["revision"],
        "revision_reason": content["reason"],
        "submitted_at": content["submitted_at"],
        "overall": content["overall"],
        "overall_label": Assessment.Recommendation(content["overall"]).label,
        "takeaways": content["takeaways"],
        "strengths": content["strengths"],
        "concerns": content["concerns"],
        "ratings": rows,
        "computed": figures,
        "kinds": scores.by_kind(rows),
        "differs_from_score": scores.differs(content["overall"], figures["weighted_score"]),
    }


def questions(
    asked: Iterable[SessionQuestion], rows: Iterable[Assessment], assessments: list[dict[str, Any]], viewer: User
) -> list[dict[str, Any]]:
    """Return the questions with the records of the assessments that are shown.

    ``asked_at``, ``asked_ms`` and ``answer_note`` sum the records up: the first time, and everybody's answers.
    """
    levels = {
        (item["interviewer"], rating["question"]): rating
        for item in assessments
        for rating in item["ratings"]
        if rating["question"]
    }
    records: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        for record in _records(row, viewer):
            rating = levels.get((row.interviewer.get_username(), record["question"]), _NOT_RATED)
            records.setdefault(record["question"], []).append(_record(row, record, rating["level"]))
    return [_question(row, records.get(str(row.uuid), [])) for row in asked]


def _question(row: SessionQuestion, records: list[dict[str, Any]]) -> dict[str, Any]:
    version = row.question_version
    times = [(record["asked_ms"], record["asked_at"]) for record in records if record["asked_at"]]
    asked_ms, asked_at = min(times, default=(None, None))
    answers = [(record["interviewer"], record["answer"]) for record in records if record["answer"]]
    alone = len(answers) == 1
    return {
        "id": str(row.uuid),
        "bank": version.question.bank.slug,
        "key": version.question.key,
        "version": version.number,
        "category": version.question.category,
        "title": version.title,
        "asked_at": asked_at,
        "asked_ms": asked_ms,
        "answer_note": answers[0][1] if alone else "\n\n".join(f"{name}: {text}" for name, text in answers),
        "records": records,
    }


def _record(row: Assessment, record: dict[str, Any], level: int | None) -> dict[str, Any]:
    at = record["asked_at"]
    return {
        "interviewer": row.interviewer.get_username(),
        "asked_at": timestamp(datetime.fromisoformat(at)) if at else None,
        "asked_ms": record["asked_ms"],
        "answer": record["answer"],
        "follow_ups": record["follow_ups"],
        "hints": record["hints"],
        "level": level,
        "level_label": scores.LEVELS[level] if level else "Not assessed",
    }


def _records(row: Assessment, viewer: User) -> list[dict[str, Any]]:
    """Return the records as they were submitted, or the viewer's own as they are now.

    A submission from before records were frozen with it has those that are stored, unless it is being revised.
    """
    content = _submitted_content(row)
    if content and "questions" in content:
        return list(content["questions"])
    return records_of(row) if row.interviewer == viewer or row.submitted_at else []


def _submitted_content(row: Assessment) -> dict[str, Any] | None:
    """Return the newest submission; None for a draft."""
    revisions = list(row.revisions.all())
    if not revisions:
        return None
    revision = revisions[-1]
    return {
        **revision.content,
        "revision": revision.number,
        "reason": revision.reason,
        "submitted_at": timestamp(revision.submitted_at),
    }


def _draft_content(row: Assessment, found: Iterable[RatedSubject]) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("overall", "takeaways", "strengths", "concerns", "revision")},
        "reason": row.revision_reason,
        "submitted_at": None,
        "ratings": ratings_of(row, found),
        "questions": records_of(row),
    }


def _ratings(content: dict[str, Any], found: Iterable[RatedSubject]) -> Iterator[dict[str, Any]]:
    """Return a row for each criterion of what this interviewer could rate: questions only once they were asked."""
    given = {_key(rating, rating["criterion"]): rating for rating in content["ratings"]}
    answers = {record["question"]: record["answer"] for record in content.get("questions", ())}
    for subject in found:
        if _is_rated(subject, content):
            for criterion in subject.criteria:
                rating = given.get(_key(subject.names, criterion.key), _NOT_RATED)
                yield _rating(subject, criterion, rating, answers.get(subject.names["question"], ""))


def _is_rated(subject: RatedSubject, content: dict[str, Any]) -> bool:
    """Whether a submission could rate the subject: before there were others, scenarios alone."""
    if subject.kind != Kind.QUESTION:
        return subject.kind == Kind.SCENARIO or "questions" in content
    uuid = subject.names["question"]
    asked = any(record["question"] == uuid for record in content.get("questions", ()))
    return asked or any(rating.get("question") == uuid for rating in content["ratings"])


def _key(names: dict[str, Any], criterion: str) -> _Key:
    subject = names.get("subject", str(Kind.SCENARIO))
    return subject, names.get("scenario", ""), names.get("question", ""), names.get("part"), criterion


def _rating(subject: RatedSubject, criterion: Criterion, given: dict[str, Any], answer: str) -> dict[str, Any]:
    level = given["level"]
    return {
        **subject.names,
        "subject_title": subject.title,
        "criterion": criterion.key,
        "kind": criterion.kind,
        "title": criterion.title,
        "weight": criterion.weight,
        "level": level,
        "level_label": scores.LEVELS[level] if level else "Not assessed",
        "anchor": criterion.anchors[level] if level else "",
        "note": given["note"],
        "from_memory": given["from_memory"],
        "evidence": scores.evidence_of(level, given["note"], given["from_memory"], answer),
    }
