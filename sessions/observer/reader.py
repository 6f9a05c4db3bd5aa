"""Where checks read: objects from the cache, logs from the cluster."""

from __future__ import annotations

from typing import Any, Protocol

from sessions.observer.cache import Cache


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


def matches(selector: str, labels: dict[str, str]) -> bool:
    """Whether labels satisfy an equality selector: ``a=b``, ``a==b``, ``a!=b``, ``a``, ``!a``, joined by commas."""
    return all(_term(term.strip(), labels) for term in selector.split(",") if term.strip())


def _term(term: str, labels: dict[str, str]) -> bool:
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = term.replace("==", "=", 1).split("=", 1)
        return labels.get(key.strip()) == value.strip()
    return term[1:].strip() not in labels if term.startswith("!") else term in labels
