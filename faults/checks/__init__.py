"""Conditions over live objects: what is read, what must be true of it, and how long it must stay true."""

from faults.checks.evaluation import Outcome, Reader, Verdict, evaluate, evaluate_all
from faults.checks.expressions import ExpressionError
from faults.checks.failing import GRACE, Failure, judge_failure
from faults.checks.holding import Held, hold
from faults.checks.model import Check, Condition, LogRead, ObjectRead, Read

__all__ = [
    "GRACE",
    "Check",
    "Condition",
    "ExpressionError",
    "Failure",
    "Held",
    "LogRead",
    "ObjectRead",
    "Outcome",
    "Read",
    "Reader",
    "Verdict",
    "evaluate",
    "evaluate_all",
    "hold",
    "judge_failure",
]
