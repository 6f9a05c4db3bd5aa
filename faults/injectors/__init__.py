"""From a pack's inject steps to the engine's changes. One module for each kind of step; the table is the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from faults.engine.model import Change
from faults.injectors import manifest, patch


class Step(Protocol):
    """An inject step of a pack."""

    @property
    def kind(self) -> str:
        """The injector's name."""

    @property
    def spec(self) -> dict[str, Any]:
        """What the injector is to do."""


INJECTORS: Mapping[str, Callable[[dict[str, Any]], list[Change]]] = {
    "manifest": manifest.changes,
    "patch": patch.changes,
}


def changes(steps: Sequence[Step]) -> list[Change]:
    """Return the changes of all steps in order. The same steps always give the same list, which journals rely on."""
    return [change for step in steps for change in INJECTORS[step.kind](step.spec)]
