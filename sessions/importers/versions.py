"""Writes questions: a wording is frozen in a version, and a changed wording is a new version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

from sessions.models import Question, QuestionVersion


@dataclass(frozen=True)
class Wording:
    """The text of a question, all of it Markdown."""

    title: str
    prompt: str = ""
    expected_answer: str = ""
    follow_ups: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    discussion_points: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, version: QuestionVersion) -> Wording:
        """Return the wording that a version froze."""
        return cls(**{name: getattr(version, name) for name in cls.__dataclass_fields__})

    def digest(self) -> str:
        """Return the SHA-256, in hex, of the wording as canonical JSON."""
        text = json.dumps(asdict(self), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def add_version(question: Question, wording: Wording, *, source_line: int | None = None) -> QuestionVersion | None:
    """Freeze a wording as the newest version; None where the newest already says just this."""
    newest = question.versions.first()
    if newest and Wording.of(newest) == wording:
        return None
    number = newest.number + 1 if newest else 1
    return question.versions.create(
        number=number, digest=_free_digest(question, wording, number), source_line=source_line, **asdict(wording)
    )


def _free_digest(question: Question, wording: Wording, number: int) -> str:
    """Return the wording's digest, or one that names the version too where an older version says the same."""
    digest = wording.digest()
    if question.versions.filter(digest=digest).exists():
        return hashlib.sha256(f"{digest} again in version {number}".encode()).hexdigest()
    return digest
