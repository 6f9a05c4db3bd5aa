"""Merges a patch into an object that is there."""

from __future__ import annotations

from typing import Any

from faults.engine.model import Change, Patch, Target


def changes(spec: dict[str, Any]) -> list[Change]:
    """Return the one change: ``spec["patch"]`` (RFC 7386) merged into ``spec["target"]``."""
    return [Patch(Target.load(spec["target"]), spec["patch"])]
