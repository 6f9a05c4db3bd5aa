"""The journal's copy inside the cluster, from which ``faults.janitor`` reverts when everything of ours is dead.

One Secret for each run, in a namespace that no candidate can read. The namespace is made when it is missing, and goes
with the last of our Secrets if we made it.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from faults.engine.model import MANAGER, Record
from faults.errors import AlreadyExists, Conflict, NotFound
from faults.kube.client import Kube, Obj

NAMESPACE = "platform-system"
TYPE = "platform.local/state"
_KEY = "state"
_DEADLINE = "deadline"  # a key of its own: it moves without the lease, while a worker writes the state


@dataclass(frozen=True, slots=True)
class Mirror:
    """What one Secret says. ``owns_namespace``: it was not there before us."""

    name: str
    deadline: datetime | None
    namespaces: tuple[str, ...]
    records: tuple[Record, ...] = ()
    owns_namespace: bool = False

    def dump(self) -> bytes:
        """Return it as JSON."""
        return orjson.dumps(
            {
                "version": 1,
                "namespaces": self.namespaces,
                "ownsNamespace": self.owns_namespace,
                "records": [record.dump() for record in self.records],
            }
        )

    @classmethod
    def load(cls, secret: Obj) -> Mirror:
        """Read a Secret that ``MirrorJournal`` wrote."""
        data: dict[str, Any] = orjson.loads(base64.b64decode(secret["data"][_KEY]))
        deadline = base64.b64decode(secret["data"].get(_DEADLINE, "")).decode("ascii")
        return cls(
            name=secret["metadata"]["name"],
            deadline=datetime.fromisoformat(deadline) if deadline else None,
            namespaces=tuple(data["namespaces"]),
            records=tuple(Record.load(record) for record in data["records"]),
            owns_namespace=data["ownsNamespace"],
        )


class MirrorJournal:
    """``faults.engine.Journal`` over one Secret. It has no fence of its own: the database's stands before it."""

    def __init__(self, kube: Kube, mirror: Mirror) -> None:
        self._kube = kube
        self._mirror = mirror
        self._known = False

    def records(self) -> Sequence[Record]:
        """Return what the Secret says, [] where there is none."""
        self._load()
        return self._mirror.records

    def save(self, record: Record) -> None:
        """Write one record. The call returns when the cluster has stored it."""
        self._load()
        records = {known.index: known for known in self._mirror.records} | {record.index: record}
        self._mirror = replace(self._mirror, records=tuple(records[index] for index in sorted(records)))
        self._write()

    def move_deadline(self, deadline: datetime | None) -> None:
        """Tell the janitor of a new deadline; nothing where there is no Secret."""
        with contextlib.suppress(NotFound):
            self._patch(_deadline_data(deadline))

    def guard(self) -> None:
        """Nothing stands between this journal and its cluster."""

    def close(self) -> None:
        """Remove the Secret, and the namespace with the last one if we made it."""
        self._load()
        with contextlib.suppress(NotFound):
            self._kube.delete("v1", "Secret", self._mirror.name, NAMESPACE)
        if self._mirror.owns_namespace and not _secrets(self._kube):
            with contextlib.suppress(NotFound, Conflict):  # Conflict: it is being deleted already
                self._kube.delete("v1", "Namespace", NAMESPACE)

    def _load(self) -> None:
        """Take over what an earlier worker wrote; its deadline may be old, ours is not."""
        if self._known:
            return
        try:
            stored = Mirror.load(self._kube.get("v1", "Secret", self._mirror.name, NAMESPACE))
            owned = stored.owns_namespace or self._mirror.owns_namespace
            self._mirror = replace(self._mirror, records=stored.records, owns_namespace=owned)
        except NotFound:
            owned = self._mirror.owns_namespace or _made_by_us(self._kube)
            self._mirror = replace(self._mirror, owns_namespace=owned)
        self._known = True

    def _write(self) -> None:
        data = {_KEY: base64.b64encode(self._mirror.dump()).decode("ascii")}
        try:
            self._patch(data)
        except NotFound:
            self._create(data | _deadline_data(self._mirror.deadline))

    def _patch(self, data: dict[str, str]) -> None:
        self._kube.patch("v1", "Secret", self._mirror.name, NAMESPACE, {"data": data}, field_manager=MANAGER)

    def _create(self, data: dict[str, str]) -> None:
        self._ensure_namespace()
        meta = {"name": self._mirror.name, "namespace": NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": meta, "data": data}
        self._kube.create(secret, field_manager=MANAGER)

    def _ensure_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with contextlib.suppress(AlreadyExists):
            self._kube.create(body, field_manager=MANAGER)


def _deadline_data(deadline: datetime | None) -> dict[str, str]:
    return {_DEADLINE: base64.b64encode(deadline.isoformat().encode() if deadline else b"").decode("ascii")}


def stored(kube: Kube) -> list[Mirror]:
    """Return every mirror of a cluster."""
    return [Mirror.load(secret) for secret in _secrets(kube)]


def _secrets(kube: Kube) -> list[Obj]:
    return [secret for secret in kube.list("v1", "Secret", NAMESPACE) if secret.get("type") == TYPE]


def _made_by_us(kube: Kube) -> bool:
    """Return whether another run of ours made the namespace: whoever goes last takes it along."""
    return any(mirror.owns_namespace for mirror in stored(kube))
