"""The journal's copy inside the cluster, from which ``faults.janitor`` reverts when everything of ours is dead.

One Secret for each run, in a namespace that no candidate can read. The namespace is made when it is missing, and goes
with the last of our Secrets if we made it.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from faults.clock import Anchor, installation, time_of
from faults.engine.model import MANAGER, Record, State, Target
from faults.engine.stuck import kubectl_name
from faults.errors import AlreadyExists, ClusterError, Conflict, JournalError, NotFound
from faults.kube.client import Kube, Obj

NAMESPACE = "platform-system"
TYPE = "platform.local/state"
_KEY = "state"
MAX_WRITES = 4
_CLOCK = "clock"  # by which to read the deadline
_DEADLINE = "deadline"  # a key of its own: it moves without the lease, while a worker writes the state


@dataclass(frozen=True, slots=True)
class Mirror:
    """Contents of one Secret. ``owns_namespace``: we created the namespace."""

    name: str
    deadline: datetime | None
    namespaces: tuple[str, ...]
    records: tuple[Record, ...] = ()
    owns_namespace: bool = False
    sequence: int = 0  # the number of the run: what was made last is taken back first
    anchor: Anchor | None = None

    def now(self) -> datetime | None:
        """Return how late it is by the clock that the deadline was read from; None on another machine or boot."""
        return time_of(self.anchor) if self.anchor is not None else None

    def dump(self) -> bytes:
        """Return it as JSON."""
        return orjson.dumps(
            {
                "version": 1,
                "namespaces": self.namespaces,
                "ownsNamespace": self.owns_namespace,
                "sequence": self.sequence,
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
            sequence=data.get("sequence", 0),  # missing in what earlier versions wrote
            anchor=Anchor.load(base64.b64decode(secret["data"].get(_CLOCK, ""))),
        )


class MirrorJournal:
    """``faults.engine.Journal`` over one Secret. It has no fence of its own: the database's stands before it."""

    def __init__(self, kube: Kube, mirror: Mirror) -> None:
        self._kube = kube
        self._mirror = mirror
        self._known = False
        self._is_missing = False
        self._has_company = False  # others' copies, and so the namespace, were there when ours was looked for

    def records(self) -> Sequence[Record]:
        """Return what the Secret says, [] where there is none."""
        with self._own_errors():
            self._load()
        return self._mirror.records

    def save(self, *records: Record) -> None:
        """Write some records. The call returns when the cluster has stored them. Raises JournalError."""
        with self._own_errors():
            self._load()
            known = {record.index: record for record in (*self._mirror.records, *records)}
            self._mirror = replace(self._mirror, records=tuple(known[index] for index in sorted(known)))
            self._write(create=any(record.state is not State.REVERTED for record in records))

    def move_deadline(self, deadline: datetime | None) -> None:
        """Tell the janitor of a new deadline; nothing where there is no Secret."""
        with contextlib.suppress(NotFound):
            self._patch(_deadline_data(deadline))

    def guard(self) -> None:
        """Nothing stands between this journal and its cluster."""

    def close(self) -> Sequence[Record]:
        """Remove the Secret, and the namespace with the last one if we made it; return both. Raises JournalError."""
        with self._own_errors():
            self._load()
            secret = self._delete(self._target())
            if not self._mirror.owns_namespace or _other_secrets(self._kube, self._mirror.name):
                return secret
            return [*secret, *self._delete(Target("v1", "Namespace", "", NAMESPACE))]

    def remains(self) -> bool:
        """Return whether the cluster still has the copy, or the namespace that was made for it."""
        owned = self._mirror.owns_namespace and not _other_secrets(self._kube, self._mirror.name)
        targets = [self._target(), *([Target("v1", "Namespace", "", NAMESPACE)] if owned else [])]
        return any(self._exists(target) for target in targets)

    def _exists(self, target: Target) -> bool:
        try:
            self._kube.get(target.api_version, target.kind, target.name, target.namespace)
        except NotFound:
            return False
        return True

    def _target(self) -> Target:
        return Target("v1", "Secret", NAMESPACE, self._mirror.name)

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        try:
            yield
        except ClusterError as exc:
            command = f"kubectl delete {kubectl_name(self._target())}"
            raise JournalError(str(self._target()), exc, command) from exc

    def _delete(self, target: Target) -> list[Record]:
        """Delete an object; return it as a step that was taken back, so that somebody waits until it has gone."""
        try:
            uid = self._kube.get(target.api_version, target.kind, target.name, target.namespace)["metadata"]["uid"]
            with contextlib.suppress(Conflict):  # it is being deleted already
                self._kube.delete(target.api_version, target.kind, target.name, target.namespace, uid=uid)
        except NotFound:
            return []
        return [Record(-1, "journal", target, {"action": "delete"}, uid=uid, state=State.REVERTED)]

    def _load(self) -> None:
        """Take over what an earlier worker wrote; its deadline may be old, ours is not."""
        if self._known:
            return
        try:
            ours = Mirror.load(self._kube.get("v1", "Secret", self._mirror.name, NAMESPACE))
            owned = ours.owns_namespace or self._mirror.owns_namespace
            self._mirror = replace(self._mirror, records=ours.records, owns_namespace=owned)
        except NotFound:
            self._is_missing = True
            if not self._mirror.owns_namespace:
                self._join(stored(self._kube))
        self._known = True

    def _join(self, others: Sequence[Mirror]) -> None:
        """Share the namespace with other runs. If one of ours made it, whoever goes last takes it along."""
        self._has_company = bool(others)
        self._mirror = replace(self._mirror, owns_namespace=any(other.owns_namespace for other in others))

    def _write(self, create: bool) -> None:
        """Write the state; whoever created or changed the Secret at the same moment is no obstacle.

        A copy that has gone is not made anew to say that a step was taken back: the janitor was here.
        """
        data = {_KEY: base64.b64encode(self._mirror.dump()).decode("ascii")}
        for attempt in range(MAX_WRITES):
            try:
                return self._patch_or_create(data, create)
            except Conflict:
                if attempt == MAX_WRITES - 1:
                    raise

    def _patch_or_create(self, data: dict[str, str], create: bool) -> None:
        is_new, self._is_missing = create and self._is_missing, False
        try:
            if not is_new:
                return self._patch(data)
        except NotFound:
            if not create:
                return None
        return self._create(data | _deadline_data(self._mirror.deadline))

    def _patch(self, data: dict[str, str]) -> None:
        self._kube.patch("v1", "Secret", self._mirror.name, NAMESPACE, {"data": data}, field_manager=MANAGER)

    def _create(self, data: dict[str, str]) -> None:
        meta = {"name": self._mirror.name, "namespace": NAMESPACE}
        secret = {"apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": meta, "data": data}
        if self._has_company:
            with contextlib.suppress(NotFound):  # the last of them went a moment ago, and the namespace with it
                self._kube.create(secret, field_manager=MANAGER)
                return
        self._ensure_namespace()
        self._kube.create(secret, field_manager=MANAGER)

    def _ensure_namespace(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with contextlib.suppress(AlreadyExists):
            self._kube.create(body, field_manager=MANAGER)


def _deadline_data(deadline: datetime | None) -> dict[str, str]:
    text = deadline.isoformat() if deadline else ""
    return {
        _DEADLINE: base64.b64encode(text.encode()).decode("ascii"),
        _CLOCK: base64.b64encode(installation().anchor.dump().rstrip()).decode("ascii"),
    }


def stored(kube: Kube) -> list[Mirror]:
    """Return every mirror of a cluster."""
    return [Mirror.load(secret) for secret in _secrets(kube)]


def _secrets(kube: Kube) -> list[Obj]:
    return [secret for secret in kube.list("v1", "Secret", NAMESPACE) if secret.get("type") == TYPE]


def _other_secrets(kube: Kube, name: str) -> bool:
    """Return whether other runs need the namespace; a Secret that is on its way out does not."""
    metas = [secret["metadata"] for secret in _secrets(kube)]
    return any(meta["name"] != name and not meta.get("deletionTimestamp") for meta in metas)
