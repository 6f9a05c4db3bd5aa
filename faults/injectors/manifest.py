"""Creates the objects of a manifest."""

from __future__ import annotations

from typing import Any

from faults.engine.model import Change, Create


def changes(spec: dict[str, Any]) -> list[Change]:
    """Return one creation for each of ``spec["objects"]``."""
    return [Create(obj) for obj in spec["objects"]]
