"""Evaluates conditions against a reader. Four verdicts: our own failure to look is "error", never "fail"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from faults.checks import expressions
from faults.checks.model import Check, Condition
from faults.checks.reading import Reader, SharedReads, read_all
from faults.errors import ClusterError
from faults.plain_text import plain

Verdict = Literal["pass", "fail", "error", "not_run"]
FINDING_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and what was seen in words for a person."""

    verdict: Verdict
    finding: str = ""


class LastLooks:
    """Outcomes of conditions, and what each had read: of equal objects an expression says what it said before.

    For whoever looks again and again: to take objects over into CEL costs more than to compare them.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[dict[str, Any], Outcome]] = {}

    def outcome(self, condition: Condition, read: dict[str, Any]) -> Outcome:
        """Return the outcome for the values of a condition's reads, evaluated unless they are those of last time."""
        key = (condition.expr, condition.found)
        last = self._known.get(key)
        if last is None or last[0] != read:
            last = self._known[key] = (read, _outcome(condition, read))
        return last[1]


def evaluate(condition: Condition, reader: Reader, last: LastLooks | None = None) -> Outcome:
    """Look once. Never raises for what a cluster or an expression does: that is the verdict "error"."""
    try:
        read = read_all(condition.reads, reader)
    except ClusterError as exc:
        return Outcome("error", plain(f"The cluster could not be read: {exc}", FINDING_LENGTH))
    return _outcome(condition, read) if last is None else last.outcome(condition, read)


def evaluate_all(checks: Iterable[Check], reader: Reader) -> dict[str, Outcome]:
    """Evaluate checks in their order; one whose ``needs`` have not all passed is not run. Reads are shared."""
    return dict(evaluate_each(checks, reader))


def evaluate_each(
    checks: Iterable[Check], reader: Reader, last: LastLooks | None = None
) -> Iterator[tuple[str, Outcome]]:
    """Yield key and outcome of each check as ``evaluate_all`` has them: whoever has seen enough asks for no more."""
    shared = SharedReads(reader)
    outcomes: dict[str, Outcome] = {}
    titles: dict[str, str] = {}
    for check in checks:
        titles[check.key] = check.title
        unmet = [key for key in check.needs if key not in outcomes or outcomes[key].verdict != "pass"]
        if unmet:
            waits = ", ".join(titles.get(key, key) for key in unmet)
            outcomes[check.key] = Outcome("not_run", f"Waits for: {waits}.")
        else:
            outcomes[check.key] = evaluate(check.condition, shared, last)
        yield check.key, outcomes[check.key]


def _outcome(condition: Condition, read: dict[str, Any]) -> Outcome:
    try:
        values = expressions.prepared(read)
        truth = expressions.run(condition.expr, values)
    except expressions.ExpressionError as exc:
        return Outcome("error", plain(f"The condition could not be evaluated: {exc}", FINDING_LENGTH))
    if not isinstance(truth, bool):
        return Outcome("error", f"The condition gave {type(truth).__name__}, not true or false.")
    return Outcome("pass" if truth else "fail", _finding(condition, values))


def _finding(condition: Condition, values: expressions.Prepared) -> str:
    """Describe what was seen. A description that fails says so and changes no verdict."""
    try:
        return plain(str(expressions.run(condition.found, values)), FINDING_LENGTH)
    except expressions.ExpressionError as exc:
        return plain(f"(no description: {exc})", FINDING_LENGTH)
