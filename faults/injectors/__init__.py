"""Kinds of inject steps: what a pack may ask for, and how the engine does it and takes it back.

A new kind is a class in a module of this package and an entry in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from faults.engine.actions import Actions, Change
from faults.injectors.call import Call
from faults.injectors.delete import Delete
from faults.injectors.kinds import Kind, StepError
from faults.injectors.manifest import Create, Manifest
from faults.injectors.patch import Patch, PatchObject
from faults.injectors.terraform import Reserve, Terraform

__all__ = ["ACTIONS", "KINDS", "Create", "Kind", "Manifest", "PatchObject", "Reserve", "StepError", "changes"]


class Step(Protocol):
    """An inject step of a pack."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    @property
    def spec(self) -> dict[str, Any]:
        """The values of its fields."""


KINDS: Mapping[str, Kind[Any]] = {kind.name: kind for kind in (Manifest(), Patch(), Delete(), Call(), Terraform())}
ACTIONS: Actions = {kind.undo: kind for kind in KINDS.values()}
"""The engine's actions, by what journals say."""


def changes(steps: Sequence[Step]) -> list[Change]:
    """Return the changes of all steps in order. The same steps always give the same list, which journals rely on."""
    return [change for step in steps for change in KINDS[step.kind].changes(step.spec)]
