"""Questions with one interviewer's records of them. Never pushed, since records are private until submitted."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import User

from sessions import subjects
from sessions.models import Assessment, InterviewSession, QuestionRecord, SessionQuestion
from sessions.panels import scoring
from sessions.panels.subject import Context, Subject, own_assessment, own_records_of, questions_of
from sessions.services.question_records import MAX_ANSWER_LENGTH, OPEN

BEFORE = (InterviewSession.State.DRAFT, InterviewSession.State.PREPARING, InterviewSession.State.READY)


@dataclass(frozen=True, slots=True)
class UsableText:
    """A follow-up or a hint with whether it was used; ``name`` is its field's."""

    name: str
    text: str
    used: bool


def questions(subject: Subject) -> Context:
    """Return the questions of the session with expected answers, and with this interviewer's records."""
    own = own_assessment(subject.session, subject.user)
    own_records_of(subject.session, own)  # fetches the questions, too
    return {
        "questions": [question_row(subject.session, row, own) for row in questions_of(subject.session)],
        **progress_of(subject.session, subject.user),
    }


def progress_of(session: InterviewSession, user: User | None) -> Context:
    """Return how many questions the user has asked, of how many, and how many of the rated ones lack an answer."""
    own = own_assessment(session, user)
    records = own_records_of(session, own)
    ratings = [row for row in own.ratings.all() if row.question_id] if own else []
    rated = [evidence for row in ratings if (evidence := scoring.evidence_of(row, records)) is not None]
    return {
        "asked": sum(row.asked_at is not None for row in records.values()),
        "asked_of": len(questions_of(session)),
        "answers_rated": len(rated),
        "answers_bare": rated.count("missing"),
    }


def question_row(session: InterviewSession, question: SessionQuestion, own: Assessment | None) -> Context:
    """Return one question as its form shows it."""
    record = own_records_of(session, own).get(question.pk) or QuestionRecord(question=question)
    subject = subjects.of_question(question)
    (criterion,) = subject.criteria
    wording = question.question_version
    rating = scoring.ratings_by_key(own).get((subject.key, criterion.key))
    is_open = own is not None and own.submitted_at is None
    return {
        "question": question,
        "record": record,
        "criterion": scoring.criterion_row(subject, criterion, rating),
        "follow_ups": usable_texts("follow_up", wording.follow_ups, record.follow_ups),
        "hints": usable_texts("hint", wording.hints, record.hints),
        "may_ask": is_open and session.state in OPEN,
        "may_note": is_open and session.state not in BEFORE,
        "answer_limit": MAX_ANSWER_LENGTH,
    }


def usable_texts(name: str, texts: list[str], used: list[int]) -> list[UsableText]:
    """Return texts with the names of their check boxes, counted from 1."""
    return [UsableText(f"{name}_{index + 1}", text, index in used) for index, text in enumerate(texts)]
