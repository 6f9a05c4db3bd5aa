"""The node that a toolbox with a GPU has to itself, set aside by a role as control planes are.

Its label and taint keep everything else away, and its one GPU is the toolbox's: whatever a scenario counts, schedules
or measures is as it would be without the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NODE_ROLE = "node-role.kubernetes.io/toolbox"
"""The label, and the key of the taint."""
EFFECT = "NoSchedule"
TOLERATION = {"key": NODE_ROLE, "operator": "Exists", "effect": EFFECT}
SET_ASIDE = f"the label {NODE_ROLE} and the taint {NODE_ROLE}:{EFFECT}"


def is_set_aside(node: Mapping[str, Any]) -> bool:
    """Return whether a node is there for the toolbox alone: a label that keeps no work away hides no node."""
    taints = (node.get("spec") or {}).get("taints") or ()
    is_kept = any((taint.get("key"), taint.get("effect")) == (NODE_ROLE, EFFECT) for taint in taints)
    return is_kept and NODE_ROLE in (node["metadata"].get("labels") or {})
