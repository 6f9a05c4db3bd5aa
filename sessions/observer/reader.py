"""Reads of checks: objects from the cache, logs from the cluster, all else from answers that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from faults.errors import ClusterError
from sessions.observer.cache import Cache
from sessions.observer.label_selectors import matches
from sessions.observer.remote_reads import RemoteReads

Objects = list[dict[str, Any]]


class LogSource(Protocol):
    """The one verb of a cluster client that checks need beside the cache."""

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log. Raises ``ClusterError``."""


class CacheReader:
    """A ``faults.checks.Reader`` over a cache that watches keep current. Out of date is an error, not an answer."""

    def __init__(self, cache: Cache, source: LogSource, remote: RemoteReads | None = None) -> None:
        self._cache = cache
        self._source = source
        self._answers = remote

    def list(self, api_version: str, kind: str, namespace: str = "", label_selector: str = "") -> Objects:
        """Return the objects of the newest state. Raises ``Unreachable`` while the cluster does not answer."""
        found = self._cache.current((api_version, kind))
        return [
            obj
            for obj in found
            if namespace in ("", obj["metadata"].get("namespace", ""))
            and matches(label_selector, obj["metadata"].get("labels") or {})
        ]

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log, asked for now."""
        return self._source.logs(namespace, pod, container, previous, tail_lines)

    def query(self, promql: str) -> Sequence[Any]:
        """Return the series of an instant query. Raises NotYet before the first answer, as those below do."""
        return self._remote.query(promql)

    def review_access(self, user: str, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return the status of a SubjectAccessReview."""
        return self._remote.review_access(user, attributes)

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page."""
        return self._remote.fetch(namespace, server, path)

    def run_command(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Return exit code and output of a command."""
        return self._remote.run_command(namespace, pod, container, command)

    def secret(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a Secret. Raises ``NotFound`` where there is none."""
        return self._remote.secret(namespace, name)

    def plan(self, namespace: str, root: str) -> dict[str, Any]:
        """Return what a plan of the toolbox's Terraform code would do."""
        return self._remote.plan(namespace, root)

    def cloud_assets(self, project: str) -> Objects:
        """Return what there is in a cloud project."""
        return self._remote.cloud_assets(project)

    @property
    def _remote(self) -> RemoteReads:
        if self._answers is None:
            raise ClusterError("only objects and logs are read here")
        return self._answers
