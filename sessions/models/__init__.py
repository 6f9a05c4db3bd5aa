"""The interview's own data: what is planned, what happened, and how it was rated."""

from sessions.models.content import Plan, PlanVersion, Question, QuestionBank, QuestionVersion
from sessions.models.interview import (
    CheckState,
    ClockEntry,
    HintRelease,
    InterviewSession,
    Outage,
    PreparationPhase,
    SessionEvent,
    SessionQuestion,
    SessionScenario,
)
from sessions.models.limits import Attempt
from sessions.models.metrics import MetricSample
from sessions.models.scoring import Assessment, AssessmentRevision, Note, Rating

__all__ = [
    "Assessment",
    "AssessmentRevision",
    "Attempt",
    "CheckState",
    "ClockEntry",
    "HintRelease",
    "InterviewSession",
    "MetricSample",
    "Note",
    "Outage",
    "Plan",
    "PlanVersion",
    "PreparationPhase",
    "Question",
    "QuestionBank",
    "QuestionVersion",
    "Rating",
    "SessionEvent",
    "SessionQuestion",
    "SessionScenario",
]
