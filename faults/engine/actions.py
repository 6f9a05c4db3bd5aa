"""The engine's actions: one class for each kind of change, found again by the undo that it recorded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from faults.engine.model import Record, Target
from faults.engine.ports import ClusterPort, Neighbours


class Change(Protocol):
    """A change to make to one object. Each kind has its own class."""

    @property
    def action(self) -> str:
        """The name of the action that makes the change: what ``undo["action"]`` will say in its record."""

    @property
    def target(self) -> Target:
        """The object that is made or changed."""

    @property
    def injector(self) -> str:
        """Whose change it is, for people who read the journal."""


ChangeT = TypeVar("ChangeT", bound=Change, contravariant=True)


class Action(ABC, Generic[ChangeT]):
    """One kind of change: how it is planned, made, taken back, found in the cluster, and taken back by a person.

    Every method may be called again after a worker died anywhere, and raises ``faults.errors.ClusterError``.
    """

    looks: ClassVar[bool] = True
    """Whether planning asks the cluster. Changes that follow each other and need no look share their commits."""
    deletes: ClassVar[bool] = False
    """Whether taking a change back deletes its object."""
    verb: ClassVar[str] = "Changing"
    """The beginning of a line of progress; the target follows."""

    @abstractmethod
    def plan(self, cluster: ClusterPort, index: int, change: ChangeT, neighbours: Neighbours) -> Record:
        """Return the record whose undo takes the change back; nothing is written yet."""

    @abstractmethod
    def apply(self, cluster: ClusterPort, change: ChangeT, record: Record) -> Record:
        """Make the change, unless an earlier attempt has made it; return the record as applied."""

    @abstractmethod
    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Take the change back as far as its effect is still there; return the record with what was found."""

    @abstractmethod
    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the effect of the change is in the cluster."""

    @abstractmethod
    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command by which a person takes the change back."""

    def is_true(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the undo of an attempt that was not recorded as made still tells what was there before."""
        return True

    def has_deleted(self, record: Record) -> bool:
        """Return whether taking the step back has deleted its object, so that somebody must wait for its end."""
        return False

    def inherit(self, record: Record, older: Record) -> tuple[Record, Record]:
        """Take over from another run's older step, which is about to be taken back, whatever both have changed.

        Return the record, whose undo then tells what was there before either, and what is left of the older one.
        """
        return record, older

    def follow(self, record: Record, target: Target, old: str, new: str) -> Record:
        """Return the record after an object was made anew: what refers to its old UID refers to the new one."""
        return replace(record, uid=new) if record.is_of(target, old) else record


Actions = Mapping[str, Action[Any]]
"""Actions by the name of the undo that they record."""
