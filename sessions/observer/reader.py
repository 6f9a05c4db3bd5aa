"""Where checks read: objects from the cache, logs from the cluster."""

from __future__ import annotations

from typing import Any, Protocol

from sessions.observer.cache import Cache
from sessions.observer.label_selectors import matches


class LogSource(Protocol):
    """The one verb of a cluster client that checks need beside the cache."""

    def logs(
        self, namespace: str, pod: str, container: str = "", previous: bool = False, tail_lines: int | None = None
    ) -> str:
        """Return a container's log. Raises ``ClusterError``."""


class CacheReader:
    """A ``faults.checks.Reader`` over a cache that watches keep current. Out of date is an error, not an answer."""

    def __init__(self, cache: Cache, source: LogSource) -> None:
        self._cache = cache
        self._source = source

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = ""
    ) -> list[dict[str, Any]]:
        """Return the objects of the newest state. Raises ``Unreachable`` while the cluster does not answer."""
        found = self._cache.current((api_version, kind))
        return [
            obj
            for obj in found
            if namespace in ("", obj["metadata"].get("namespace", ""))
            and matches(label_selector, obj["metadata"].get("labels") or {})
        ]

    def logs(self, namespace: str, pod: str, container: str = "", previous: bool = False) -> str:
        """Return a container's log, asked for now."""
        return self._source.logs(namespace, pod, container, previous)
