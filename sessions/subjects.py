"""Subjects of ratings, with their criteria: scenarios, questions, parts without a fault, and the whole interview.

A scenario brings its criteria in its pack, the others have those of ``content/criteria.yaml``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from django.utils.text import slugify

from faults.packs import Criterion
from sessions import selectors
from sessions.models import InterviewSession, Rating, SessionQuestion, SessionScenario

MAX_KEY_LENGTH = 80
Kind = Rating.Subject
_CONTENT = Path(__file__).parent / "content" / "criteria.yaml"


@dataclass(frozen=True)
class RatedSubject:
    """A subject of a session, and the criteria to rate it by; at most one of scenario, question and part is set."""

    kind: Kind
    title: str
    criteria: tuple[Criterion, ...]
    scenario: SessionScenario | None = None
    question: SessionQuestion | None = None
    part: int | None = None
    tasks: str = ""

    @property
    def key(self) -> str:
        """Return a name that is unique in the session, for ids of pages; ``subject_key`` tells it of a rating."""
        owner = self.scenario or self.question
        number = owner.pk if owner else self.part
        return str(self.kind) if number is None else f"{self.kind}{number}"

    @property
    def columns(self) -> dict[str, Any]:
        """Return what names this subject in a row of ``Rating``."""
        return {"subject": self.kind, "scenario": self.scenario, "question": self.question, "part": self.part}

    @property
    def reference(self) -> dict[str, Any]:
        """Return what names this subject in the time line."""
        if owner := self.scenario or self.question:
            return {str(self.kind): str(owner.uuid)}
        return {} if self.part is None else {"part": self.part}

    @property
    def names(self) -> dict[str, Any]:
        """Return what names this subject in a submission and in exports, where keys of rows mean nothing."""
        return {
            "subject": str(self.kind),
            "scenario": self.scenario.scenario_version.scenario.slug if self.scenario else "",
            "question": str(self.question.uuid) if self.question else "",
            "part": self.part,
        }

    def criterion(self, key: str) -> Criterion | None:
        """Return the criterion of this key."""
        return next((criterion for criterion in self.criteria if criterion.key == key), None)


def subject_key(rating: Rating) -> str:
    """Return the ``key`` of the subject that a rating is about."""
    numbers = (rating.scenario_id, rating.question_id, rating.part)
    number = next((number for number in numbers if number is not None), None)
    return rating.subject if number is None else f"{rating.subject}{number}"


def of_scenario(scenario: SessionScenario) -> RatedSubject:
    """Return a scenario of a session as a subject."""
    pack = selectors.pack_for(scenario)
    return RatedSubject(Kind.SCENARIO, pack.title, tuple(pack.rubric), scenario=scenario)


def of_question(question: SessionQuestion) -> RatedSubject:
    """Return a question of a session as a subject."""
    return RatedSubject(Kind.QUESTION, question.question_version.title, _common(Kind.QUESTION), question=question)


def of_part(session: InterviewSession, number: int) -> RatedSubject | None:
    """Return a part as a subject; None where there is no such part, or its scenarios or questions are rated."""
    if not 0 <= number < len(session.parts):
        return None
    outline = session.parts[number]
    criteria = part_criteria(outline)
    if not criteria:
        return None
    title, tasks = str(outline.get("title", "")), str(outline.get("tasks", ""))
    return RatedSubject(Kind.PART, title, criteria, part=number, tasks=tasks)


def of_interview() -> RatedSubject:
    """Return the whole interview as a subject."""
    return RatedSubject(Kind.INTERVIEW, "The whole interview", _common(Kind.INTERVIEW))


def of_session(
    session: InterviewSession, scenarios: Iterable[SessionScenario], questions: Iterable[SessionQuestion]
) -> list[RatedSubject]:
    """Return all subjects of a session in the order of its parts, the whole interview last."""
    parts = [found for number in range(len(session.parts)) if (found := of_part(session, number))]
    subjects = [*map(of_scenario, scenarios), *map(of_question, questions), *parts]
    return [*sorted(subjects, key=_part_number), of_interview()]


def part_criteria(outline: dict[str, Any]) -> tuple[Criterion, ...]:
    """Return the criteria of a part of an outline: those it lists, or one where it has nothing else to rate."""
    template = _common(Kind.PART)[0]
    listed: Sequence[str] = outline.get("criteria", ())
    if listed:
        return tuple(replace(template, key=part_criterion_key(text), title=text) for text in listed)
    return () if outline.get("scenarios") or outline.get("questions") else (template,)


def part_criterion_key(text: str) -> str:
    """Return the key of a part's criterion, made from its words; one with a digest where the words are not enough."""
    slug = slugify(text)
    if text.isascii() and slug and len(slug) <= MAX_KEY_LENGTH:
        return slug
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{slug[: MAX_KEY_LENGTH - 13]}-{digest}".lstrip("-")


def _part_number(subject: RatedSubject) -> int:
    owner = subject.scenario or subject.question
    return owner.part if owner else subject.part or 0


@cache
def _common(kind: Kind) -> tuple[Criterion, ...]:
    rows = yaml.safe_load(_CONTENT.read_text(encoding="utf-8"))[str(kind)]
    return tuple(
        Criterion(row["key"], row["title"], row["weight"], "common", row["anchors"], row.get("kind", ""))
        for row in rows
    )
