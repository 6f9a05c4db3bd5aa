"""Changes of a cluster's objects as a watch tells of them: field, value before and after, and field manager.

Verdicts on a candidate need a cause. The API server names the program that owns a field (``managedFields``), never
the person, and nobody where an object was deleted; so "who" is a field manager, or not known.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faults.checks import Condition, ObjectRead
from sessions.observer.label_selectors import matches

Obj = dict[str, Any]
Kind = tuple[str, str]
MAX_CHANGES = 300
MAX_FIELDS = 2  # of one change that are told
MAX_VALUE = 60
LOOK_BACK = timedelta(seconds=90)  # an effect may follow its cause by a roll-out
UNKNOWN = "not known"
_IGNORED_KINDS = frozenset({("v1", "Event")})
_SYSTEM = frozenset(
    {
        "kube-controller-manager",
        "kube-scheduler",
        "kube-apiserver",
        "kubelet",
        "kube-proxy",
        "cloud-controller-manager",
    }
)
_SYSTEM_ENDINGS = ("-controller", "-controller-manager", "-operator", "-scheduler", "-autoscaler")
_PARTS = ("spec", "data", "binaryData", "rules", "subjects", "webhooks")


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change of one object. ``manager`` is empty where the API does not tell."""

    at: datetime
    kind: Kind
    namespace: str
    name: str
    labels: dict[str, str]
    what: str
    manager: str

    @property
    def is_by_system(self) -> bool:
        """Whether a component of the cluster made it."""
        return self.manager in _SYSTEM or self.manager.endswith(_SYSTEM_ENDINGS) or self.manager.startswith("system:")

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind[1]} {where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Cause:
    """Probable cause of a failing check. ``traceable``: a tool such as kubectl asked, no part of the cluster."""

    change: str = ""
    changed_by: str = ""
    traceable: bool = False


class ChangeLog:
    """The newest changes of one cluster. Every method may be called from any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._changes: deque[ObjectChange] = deque(maxlen=MAX_CHANGES)

    def note(self, kind: Kind, before: Obj | None, after: Obj | None) -> None:
        """Remember how an object changed; status and bookkeeping do not count. None stands for no object."""
        if kind in _IGNORED_KINDS:
            return
        obj = after or before
        what = describe(before, after)
        if obj is None or not what:
            return
        meta = obj["metadata"]
        manager = manager_of(after, what) if after is not None else ""
        labels = meta.get("labels") or {}
        change = ObjectChange(self._now(), kind, meta.get("namespace", ""), meta["name"], labels, what, manager)
        with self._lock:
            self._changes.append(change)

    def cause_of(self, condition: Condition, now: datetime) -> Cause:
        """Return the newest change that explains why a condition no longer holds, an empty cause where none does."""
        with self._lock:
            recent = [change for change in reversed(self._changes) if now - change.at <= LOOK_BACK]
        reads = [read for read in condition.reads.values() if isinstance(read, ObjectRead)]
        best = min(_ranked(recent, reads), key=lambda pair: pair[0], default=None)
        return Cause() if best is None else _cause(best[1])


def describe(before: Obj | None, after: Obj | None) -> str:
    """Return what changed in words: ``spec.replicas 2 -> 0``; empty where nothing that matters did."""
    if before is None:
        return "created"
    if after is None:
        return "deleted"
    if before["metadata"].get("deletionTimestamp") != after["metadata"].get("deletionTimestamp"):
        return "deleted"
    found = [f"{path} {_shown(old)} -> {_shown(new)}" for path, old, new in _differences(before, after)]
    more = f" and {len(found) - MAX_FIELDS} more" if len(found) > MAX_FIELDS else ""
    return "; ".join(found[:MAX_FIELDS]) + more


def manager_of(obj: Obj, what: str) -> str:
    """Return the field manager that owns the first changed field, else the one that wrote last."""
    entries = [entry for entry in obj["metadata"].get("managedFields") or [] if entry.get("subresource") != "status"]
    path = what.split(" ", 1)[0].split(".")
    owners = sorted(entries, key=lambda entry: (_depth(entry.get("fieldsV1") or {}, path), entry.get("time") or ""))
    return str(owners[-1].get("manager", "")) if owners else ""


def _cause(change: ObjectChange) -> Cause:
    if change.what == "deleted":
        return Cause(str(change), UNKNOWN, traceable=False)
    return Cause(str(change), change.manager or UNKNOWN, traceable=bool(change.manager) and not change.is_by_system)


def _ranked(
    changes: Iterable[ObjectChange], reads: list[ObjectRead]
) -> Iterator[tuple[tuple[int, int], ObjectChange]]:
    """Yield changes with their rank: on what is read before elsewhere in its namespaces, tools before the cluster."""
    for age, change in enumerate(changes):
        near = any(_is_read(change, read) for read in reads)
        if near or any(read.namespace in ("", change.namespace) for read in reads):
            is_effect = change.is_by_system or (change.kind == ("v1", "Pod") and not change.manager)
            yield (2 * is_effect + (not near), age), change


def _is_read(change: ObjectChange, read: ObjectRead) -> bool:
    return (
        (read.api_version, read.kind) == change.kind
        and read.namespace in ("", change.namespace)
        and read.name in ("", change.name)
        and matches(read.label_selector, change.labels)
    )


def _differences(before: Obj, after: Obj) -> list[tuple[str, Any, Any]]:
    found: list[tuple[str, Any, Any]] = []
    for part in _PARTS:
        if before.get(part) != after.get(part):
            found += _leaves(part, before.get(part), after.get(part))
    old, new = (obj["metadata"].get("labels") for obj in (before, after))
    return found + (_leaves("metadata.labels", old, new) if old != new else [])


def _leaves(path: str, old: Any, new: Any) -> list[tuple[str, Any, Any]]:
    """Return the innermost fields that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return [leaf for key in keys for leaf in _leaves(f"{path}.{key}", old.get(key), new.get(key))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(index, pair) for index, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
        return [leaf for index, pair in pairs for leaf in _leaves(f"{path}[{index}]", *pair)]
    return [(path, old, new)]


def _depth(fields: Obj, path: list[str]) -> int:
    """Return how many steps of a path a field set knows."""
    known: Any = fields
    for depth, step in enumerate(path):
        known = known.get(f"f:{step.partition('[')[0]}")
        if not isinstance(known, dict):
            return depth
    return len(path)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"
