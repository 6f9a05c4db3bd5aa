"""Kinds of inject steps: what a pack may ask for, and how the engine does it and takes it back.

A new kind is a class in a module of this package and an entry in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from faults.engine.actions import Actions, Change
from faults.engine.node_agents import AgentLease
from faults.injectors.call import Call
from faults.injectors.delete import Delete
from faults.injectors.kinds import Kind, StepError
from faults.injectors.manifest import Create, Manifest
from faults.injectors.network import Network
from faults.injectors.node_fault import (
    TROUBLES,
    Driver,
    GpuTrouble,
    NodeFault,
    Pressure,
    Service,
    Xid,
    renew_lease,
    with_lease,
)
from faults.injectors.patch import Patch, PatchObject
from faults.injectors.terraform import Reserve, Terraform

__all__ = [
    "ACTIONS",
    "KINDS",
    "Create",
    "Kind",
    "Manifest",
    "NodeFault",
    "PatchObject",
    "Reserve",
    "TROUBLES",
    "StepError",
    "changes",
    "renew_lease",
]


class Step(Protocol):
    """An inject step of a pack."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    @property
    def spec(self) -> dict[str, Any]:
        """The values of its fields."""


_OF_NODES = (Xid(), GpuTrouble(), Service(), Driver(), Pressure())
_ALL = (Manifest(), Patch(), Delete(), Call(), Terraform(), *_OF_NODES, Network())
KINDS: Mapping[str, Kind[Any]] = {kind.name: kind for kind in _ALL}
ACTIONS: Actions = {kind.undo: kind for kind in reversed(_ALL)}
"""The engine's actions, by what journals say; of kinds with one undo, the first."""


def changes(steps: Sequence[Step], lease: AgentLease | None = None) -> list[Change]:
    """Return the changes of all steps in order. The same steps always give the same list, which journals rely on.

    ``lease`` is the run's, under which nodes' agents let faults happen.
    """
    found = [change for step in steps for change in KINDS[step.kind].changes(step.spec)]
    return [with_lease(change, lease) for change in found]
