"""Answers that cost a request each, kept for an interval: one request for everybody who looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from faults.errors import ClusterError, NotYet, Unreachable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
MAX_QUESTIONS = 100
"""Of one cluster at a time. Packs have fewer; commands are asked of each pod, whose number is the candidate's."""
MAX_WAIT = timedelta(seconds=10)
"""From the first question to its answer; after it the lack of an answer is an error."""
MAX_AGE = timedelta(seconds=60)
"""Of an answer that counts, and of the last interest in one that is asked for again."""


@dataclass(slots=True)
class _Question(Generic[V]):
    first_wanted: datetime
    wanted: datetime
    answer: V | ClusterError | None = None
    answered: datetime | None = None


class KeptAnswers(Generic[K, V]):
    """Questions that somebody has, and their newest answers. For any thread.

    ``wake`` is called where a question is new: whoever asks the cluster should do so soon.
    """

    def __init__(self, interval: timedelta, now: Callable[[], datetime], wake: Callable[[], None]) -> None:
        self._interval = interval
        self._now = now
        self._wake = wake
        self._lock = threading.Lock()
        self._questions: dict[K, _Question[V]] = {}

    def get(self, key: K) -> V:
        """Return the newest answer. Raises NotYet before the first one, ClusterError where it failed or is old."""
        now = self._now()
        with self._lock:
            question = self._questions.get(key)
            if question is None:
                if len(self._questions) >= MAX_QUESTIONS:
                    raise ClusterError(f"more than {MAX_QUESTIONS} different things are read in this cluster")
                self._questions[key] = _Question(now, now)
            else:
                question.wanted = now
        if question is None:
            self._wake()
            raise NotYet("It has not been asked yet.")
        return self._answer_of(question, now)

    def take_due(self) -> list[K]:
        """Return what is to be asked now, the longest unanswered first; forget what nobody wants any more."""
        now = self._now()
        with self._lock:
            self._questions = {key: each for key, each in self._questions.items() if abs(now - each.wanted) < MAX_AGE}
            due = {key: each.answered for key, each in self._questions.items() if self._is_due(each, now)}
        return sorted(due, key=lambda key: (due[key] is not None, due[key] or now))

    def due_in_s(self) -> float | None:
        """Return the seconds until something is to be asked; None while nobody wants anything."""
        now, interval = self._now(), self._interval.total_seconds()
        with self._lock:
            if not self._questions:
                return None
            ages = [(now - (each.answered or now - self._interval)) for each in self._questions.values()]
        return min(max(interval - max(ages).total_seconds(), 0.0), interval)

    def put(self, key: K, answer: V | ClusterError) -> bool:
        """Keep an answer, or why there is none; return whether it is the first to its question."""
        with self._lock:
            question = self._questions.get(key)
            if question is None:
                return False
            is_first = question.answered is None
            question.answer, question.answered = answer, self._now()
            return is_first

    def _is_due(self, question: _Question[V], now: datetime) -> bool:
        return question.answered is None or abs(now - question.answered) >= self._interval

    def _answer_of(self, question: _Question[V], now: datetime) -> V:
        answer, answered = question.answer, question.answered
        if answered is None and abs(now - question.first_wanted) < MAX_WAIT:
            raise NotYet("It has not been answered yet.")
        if isinstance(answer, ClusterError):
            raise answer
        if answer is None or answered is None:
            raise Unreachable("no answer yet")
        if abs(now - answered) > MAX_AGE:
            raise Unreachable(f"no answer since {answered:%H:%M:%S}")
        return answer
