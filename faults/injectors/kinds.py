"""The base class of a kind of inject step: an action of the engine, and the step's form in a pack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from faults.engine.actions import Action, Change, ChangeT
from faults.engine.model import Target
from faults.engine.ports import ClusterPort, Obj
from faults.errors import NotFound, Unanswered, Unreachable

Schema = dict[str, Any]
TARGET: Schema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "name"],
    "properties": {
        "apiVersion": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "minLength": 1},
        "namespace": {"type": "string"},
        "name": {"type": "string", "minLength": 1},
    },
}
NO_NAMESPACES = "the namespace itself is never created or deleted by a pack; name it in `namespaces` or `existing`"


class StepError(Exception):
    """A step of a pack cannot be carried out. ``where`` is the place inside the step."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(message)
        self.where = where


class Kind(Action[ChangeT]):
    """One kind of inject step."""

    name: ClassVar[str]
    """``kind`` of a pack's step, and the injector of its records."""
    undo: ClassVar[str]
    """``action`` of the undos in journals, old ones included."""
    since: ClassVar[int] = 2
    """The first number of a pack's ``schema`` that has it."""
    needs_agent: ClassVar[bool] = False
    """True where a node's agent carries it out: packs with such a step say ``requires.agent``."""
    fields: ClassVar[dict[str, Schema]]
    """The step's fields beside ``kind``, each with its JSON Schema."""
    required: ClassVar[Sequence[str]]

    @abstractmethod
    def changes(self, spec: Obj) -> Sequence[Change]:
        """Return the changes that a step asks for. The same step always gives the same list."""

    def check(self, spec: Obj) -> None:
        """Raise ``StepError`` for what a schema cannot refuse."""

    def read_namespaces(self, spec: Obj) -> Sequence[str]:
        """Return the namespaces in which a step looks at objects that it does not change."""
        return ()

    def schema(self) -> Schema:
        """Return the JSON Schema of the step's fields."""
        return {"type": "object", "required": list(self.required), "properties": self.fields}


def get(cluster: ClusterPort, target: Target) -> Obj:
    """Return a target's object; NotFound where there is none."""
    return cluster.get(target.api_version, target.kind, target.name, target.namespace)


def find(cluster: ClusterPort, target: Target) -> Obj | None:
    """Return a target's object; None where there is none."""
    try:
        return get(cluster, target)
    except NotFound:
        return None


@contextmanager
def waiting(target: Target) -> Iterator[None]:
    """Let a program that does not answer yet be called again later: its pod may be starting."""
    try:
        yield
    except Unanswered as exc:
        raise Unreachable(f"{target} cannot be called yet: {exc.message}") from exc
