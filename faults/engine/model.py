"""The engine's values: objects by name, and the records that are kept of changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

Obj = dict[str, Any]
SCHEMA = 2  # version of the undo's format; a newer program must still read older ones
MANAGER = "kubectl-client-side-apply"
KEPT = "kept for another run that has the same object"
"""The outcome of a step whose effect may stay."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


PatchType = Literal["merge", "json", "strategic"]


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request to a program in the cluster; ``path`` may have a query, ``body`` is sent as JSON."""

    method: str
    path: str
    body: Any = None

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {"method": self.method, "path": self.path, "body": self.body}

    @classmethod
    def load(cls, data: Obj, method: str = "") -> Request:
        """Read what ``dump`` wrote, or a pack's request."""
        return cls(method or data["method"], data["path"], data.get("body"))


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a program in the cluster."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """Bounds of one command: its time from the request on, and what is read of its output."""

    seconds: float = 5.0
    output_bytes: int = 16 * 1024


class State(StrEnum):
    """Progress of a step. The values are those of the database."""

    RECORDED = "recorded"
    APPLIED = "applied"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class Target:
    """One object of a cluster, by name; the namespace is empty for a cluster-scoped one."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @classmethod
    def of(cls, obj: Obj) -> Target:
        """Return where an object is."""
        meta = obj["metadata"]
        return cls(obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"])

    @classmethod
    def load(cls, data: Obj) -> Target:
        """Read what ``dump`` wrote, or a pack's target."""
        return cls(data["apiVersion"], data["kind"], data.get("namespace", ""), data["name"])

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A step of the journal: what reverting it needs, and how far it has come.

    ``undo["action"]`` names the action (``faults.engine.actions``) that wrote the undo and can read it.
    """

    index: int
    injector: str
    target: Target
    undo: Obj
    uid: str = ""
    state: State = State.RECORDED
    outcome: str = ""
    schema: int = field(default=SCHEMA)

    def applied(self, uid: str) -> Record:
        """Return the record after its write was seen to succeed."""
        return replace(self, uid=uid, state=State.APPLIED)

    def reverted(self, outcome: str) -> Record:
        """Return the record after it was taken back; ``outcome`` says what was found."""
        return replace(self, state=State.REVERTED, outcome=outcome[:200])

    def is_of(self, target: Target, uid: str) -> bool:
        """Return whether the step is one of this very object."""
        return bool(uid) and (self.target, self.uid) == (target, uid)

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {
            "index": self.index,
            "injector": self.injector,
            "target": self.target.dump(),
            "undo": self.undo,
            "uid": self.uid,
            "state": str(self.state),
            "outcome": self.outcome,
            "schema": self.schema,
        }

    @classmethod
    def load(cls, data: Obj) -> Record:
        """Read what ``dump`` wrote."""
        return cls(
            index=data["index"],
            injector=data["injector"],
            target=Target.load(data["target"]),
            undo=data["undo"],
            uid=data["uid"],
            state=State(data["state"]),
            outcome=data["outcome"],
            schema=data["schema"],
        )
