"""Conditions over live objects: what is read, what must be true of it, and how long it must stay true."""

from faults.checks.evaluation import LastLooks, Outcome, Verdict, evaluate, evaluate_all, evaluate_each
from faults.checks.expressions import ExpressionError
from faults.checks.failing import GRACE, Failure, judge_failure
from faults.checks.holding import Held, hold
from faults.checks.model import (
    AccessRead,
    Check,
    CloudRead,
    CommandRead,
    Condition,
    LogRead,
    MetricRead,
    ObjectRead,
    PageRead,
    PlanRead,
    Read,
    StateRead,
)
from faults.checks.reading import Reader

__all__ = [
    "GRACE",
    "AccessRead",
    "Check",
    "CloudRead",
    "CommandRead",
    "Condition",
    "ExpressionError",
    "Failure",
    "Held",
    "LastLooks",
    "LogRead",
    "MetricRead",
    "ObjectRead",
    "Outcome",
    "PageRead",
    "PlanRead",
    "Read",
    "Reader",
    "StateRead",
    "Verdict",
    "evaluate",
    "evaluate_all",
    "evaluate_each",
    "hold",
    "judge_failure",
]
