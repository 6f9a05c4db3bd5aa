"""Evaluates conditions against a reader. Four verdicts: our own failure to look is "error", never "fail"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from faults.checks import expressions
from faults.checks.model import Check, Condition, LogRead, ObjectRead, Read
from faults.errors import ClusterError, Invalid, NotFound
from faults.plain_text import plain

Verdict = Literal["pass", "fail", "error", "not_run"]
FINDING_LENGTH = 1000
LOG_LENGTH = 64 * 1024


class Reader(Protocol):
    """Where conditions read: a cluster's API, a cache of it, or a test's own objects."""

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = ""
    ) -> list[dict[str, Any]]:
        """Return the objects, whole; an empty namespace means every namespace. Raises ``ClusterError``."""

    def logs(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> str:
        """Return a container's log. Raises ``ClusterError`` (``NotFound`` where there is none)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and what was seen in words for a person."""

    verdict: Verdict
    finding: str = ""


def evaluate(condition: Condition, reader: Reader) -> Outcome:
    """Look once. Never raises for what a cluster or an expression does: that is the verdict "error"."""
    try:
        values = expressions.prepared(_read_all(condition.reads, reader))
        truth = expressions.run(condition.expr, values)
    except ClusterError as exc:
        return Outcome("error", plain(f"The cluster could not be read: {exc}", FINDING_LENGTH))
    except expressions.ExpressionError as exc:
        return Outcome("error", plain(f"The condition could not be evaluated: {exc}", FINDING_LENGTH))
    if not isinstance(truth, bool):
        return Outcome("error", f"The condition gave {type(truth).__name__}, not true or false.")
    return Outcome("pass" if truth else "fail", _finding(condition, values))


def evaluate_all(checks: Iterable[Check], reader: Reader) -> dict[str, Outcome]:
    """Evaluate checks in their order; one whose ``needs`` have not all passed is not run. Reads are shared."""
    shared = _SharedReads(reader)
    outcomes: dict[str, Outcome] = {}
    titles: dict[str, str] = {}
    for check in checks:
        titles[check.key] = check.title
        unmet = [key for key in check.needs if key not in outcomes or outcomes[key].verdict != "pass"]
        if unmet:
            waits = ", ".join(titles.get(key, key) for key in unmet)
            outcomes[check.key] = Outcome("not_run", f"Waits for: {waits}.")
        else:
            outcomes[check.key] = evaluate(check.condition, shared)
    return outcomes


def _finding(condition: Condition, values: expressions.Prepared) -> str:
    """Describe what was seen. A description that fails says so and changes no verdict."""
    try:
        return plain(str(expressions.run(condition.found, values)), FINDING_LENGTH)
    except expressions.ExpressionError as exc:
        return plain(f"(no description: {exc})", FINDING_LENGTH)


def _read_all(reads: Mapping[str, Read], reader: Reader) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, read in reads.items():
        if isinstance(read, ObjectRead):
            values[name] = _objects(read, reader)
    for name, read in reads.items():
        if isinstance(read, LogRead):
            values[name] = _logs(read, values[read.pods], reader)
    return values


def _objects(read: ObjectRead, reader: Reader) -> list[dict[str, Any]]:
    found = reader.list(read.api_version, read.kind, read.namespace, read.label_selector)
    return [obj for obj in found if not read.name or obj["metadata"]["name"] == read.name]


def _logs(read: LogRead, pods: Iterable[dict[str, Any]], reader: Reader) -> list[str]:
    texts = []
    for pod in pods:
        meta = pod["metadata"]
        for container in _containers_that_ran(pod, read.container):
            try:
                text = reader.logs(meta.get("namespace", ""), meta["name"], container, read.previous)
            except (NotFound, Invalid):  # gone, or between two starts
                continue
            texts.append(text[-LOG_LENGTH:])
    return texts


def _containers_that_ran(pod: dict[str, Any], wanted: str) -> list[str]:
    """Return the containers that have started at least once; before that the API answers for a log with 400."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return [
        status["name"]
        for status in statuses
        if wanted in ("", status["name"])
        and (
            "running" in status.get("state", {}) or "terminated" in status.get("state", {}) or status.get("lastState")
        )
    ]


class _SharedReads:
    """Answers equal reads of one evaluation from memory, so that ten checks over the same pods list them once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lists: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self._texts: dict[tuple[str, str, str, bool], str] = {}

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = ""
    ) -> list[dict[str, Any]]:
        key = (api_version, kind, namespace, label_selector)
        if key not in self._lists:
            self._lists[key] = self._reader.list(*key)
        return self._lists[key]

    def logs(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> str:
        key = (namespace, pod, container, previous)
        if key not in self._texts:
            self._texts[key] = self._reader.logs(*key)
        return self._texts[key]
