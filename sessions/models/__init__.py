"""The interview's own data: plans and questions, the session and its time line, ratings and notes."""

from sessions.models.content import Plan, PlanVersion, Question, QuestionBank, QuestionVersion
from sessions.models.interview import (
    CheckState,
    ClockEntry,
    HintRelease,
    InterviewSession,
    Outage,
    PreparationPhase,
    SessionEvent,
    SessionFault,
    SessionQuestion,
    SessionScenario,
)
from sessions.models.limits import Attempt
from sessions.models.metrics import MetricSample
from sessions.models.scoring import Assessment, AssessmentRevision, Note, QuestionRecord, Rating
from sessions.models.staging import StagedPart

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
    "QuestionRecord",
    "QuestionVersion",
    "Rating",
    "SessionEvent",
    "SessionFault",
    "SessionQuestion",
    "SessionScenario",
    "StagedPart",
]
