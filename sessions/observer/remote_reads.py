"""Reads of conditions that no watch delivers: pages, commands and access reviews, each asked once in an interval.

They run in a thread of their own. A program of the candidate's may take its time to answer; neither the watch of the
cluster nor other checks wait for it. Plans of Terraform, which take longest, have another thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

from faults.errors import ClusterError
from sessions.observer.asking_thread import AskingThread, Question

log = logging.getLogger(__name__)
INTERVAL = timedelta(seconds=5)


class RemoteSource(Protocol):
    """The verbs of a cluster client that are asked here."""

    def review_access(self, user: str, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return the status of a SubjectAccessReview."""

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page."""

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return exit code and output of a command."""

    def secret(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a Secret."""

    def plan(self, namespace: str, root: str) -> dict[str, Any]:
        """Return what a plan of the toolbox's Terraform code would do."""

    def cloud_assets(self, project: str) -> list[dict[str, Any]]:
        """Return what there is in a cloud project."""


class RemoteReads:
    """The answers of one cluster, for all of its sessions. The thread begins with the first question.

    ``query`` answers PromQL; ``answered`` is called where a question has its first answer.
    """

    def __init__(
        self,
        name: str,
        source: RemoteSource,
        query: Callable[[str], Sequence[Any]],
        now: Callable[[], datetime],
        answered: Callable[[], None],
    ) -> None:
        self.query = query
        self._name = name
        self._source = source
        self._answers = AskingThread(f"reads {name[:20]}", INTERVAL, now, self._ask, answered)
        self._plans = AskingThread(f"plans {name[:20]}", INTERVAL, now, self._ask, answered)

    def review_access(self, user: str, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return the status of a SubjectAccessReview. Raises NotYet before the first answer, as the others do."""
        return dict(self._answers.get("access", user, *sorted(attributes.items())))

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page."""
        status, body = self._answers.get("page", namespace, server, path)
        return status, body

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return exit code and output of a command."""
        code, output = self._answers.get("command", namespace, pod, container, *command)
        return code, output

    def secret(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a Secret."""
        return dict(self._answers.get("secret", namespace, name))

    def plan(self, namespace: str, root: str) -> dict[str, Any]:
        """Return what a plan of the toolbox's Terraform code would do."""
        return dict(self._plans.get("plan", namespace, root))

    def cloud_assets(self, project: str) -> list[dict[str, Any]]:
        """Return what there is in a cloud project."""
        return list(self._answers.get("cloud", project))

    def take_turn(self) -> None:
        """Ask what is due."""
        self._answers.take_turn()
        self._plans.take_turn()

    def close(self) -> None:
        """Ask no more; what hangs in a request ends with it."""
        self._answers.close()
        self._plans.close()

    def _ask(self, question: Question) -> Any:
        try:
            return self._verb(question)()
        except ClusterError as exc:
            log.info("A read in %s failed and is tried again: %s", self._name, exc)
            return exc

    def _verb(self, question: Question) -> Callable[[], Any]:
        kind, *rest = question
        if kind == "access":
            return partial(self._source.review_access, rest[0], dict(rest[1:]))
        if kind == "page":
            return partial(self._source.fetch, *rest)
        if kind == "secret":
            return partial(self._source.secret, *rest)
        if kind == "plan":
            return partial(self._source.plan, *rest)
        if kind == "cloud":
            return partial(self._source.cloud_assets, *rest)
        namespace, pod, container, *command = rest
        return partial(self._source.run_command, namespace, pod, container, command)
