"""A thread that asks a cluster what somebody wants to know, each question once in an interval."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sessions.observer.kept_answers import KeptAnswers

Question = tuple[Any, ...]


class AskingThread:
    """Questions with their newest answers. The thread begins with the first question.

    ``ask`` returns an answer, or the ClusterError that there was instead; ``answered`` is called where a question has
    its first answer.
    """

    def __init__(
        self,
        name: str,
        interval: timedelta,
        now: Callable[[], datetime],
        ask: Callable[[Question], Any],
        answered: Callable[[], None],
    ) -> None:
        self._name = name
        self._ask = ask
        self._answered = answered
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._kept: KeptAnswers[Question, Any] = KeptAnswers(interval, now, self._begin)
        self.thread: threading.Thread | None = None

    def get(self, *question: Any) -> Any:
        """Return the newest answer. Raises NotYet before the first one, ClusterError where it failed or is old."""
        return self._kept.get(question)

    def take_turn(self) -> None:
        """Ask what is due."""
        for question in self._kept.take_due():
            if self._stop.is_set():
                return
            if self._kept.put(question, self._ask(question)):
                self._answered()

    def close(self) -> None:
        """Ask no more; what hangs in a request ends with it."""
        self._stop.set()
        self._wake.set()

    def _begin(self) -> None:
        self._wake.set()
        if self.thread is None and not self._stop.is_set():
            self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self.thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            self.take_turn()
            self._wake.wait(self._kept.due_in_s())
