"""Field owners of a patched object: handed back to the one who wrote it before, with the time of that write.

Whoever may read an object may read its ``metadata.managedFields``, which names the fields that a patch has set and
when. Among neighbours that nobody has touched for weeks that is the answer to a scenario. The API server takes the
list from a client as it is, as long as more than times differ in it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from faults.engine.model import Target
from faults.engine.ports import ClusterPort, Obj

WRITER = "kubectl"
"""The manager of a patch until its fields are handed back.

No command of kubectl updates whole objects as that one, so that its entry is never somebody else's.
"""
MAPS = frozenset({"f:annotations", "f:binaryData", "f:data", "f:labels", "f:matchLabels", "f:nodeSelector"})


def hand_back_fields(cluster: ClusterPort, target: Target, live: Obj) -> None:
    """Give what a patch has set to the object's first owner; nothing where that is done, or where nobody else is.

    ``live`` is the object as the patch has left it. Raises Conflict where it has changed since.
    """
    meta = live["metadata"]
    entries: list[Obj] = meta.get("managedFields") or []
    ours = next((entry for entry in entries if _is_ours(entry)), None)
    others = [entry for entry in entries if entry is not ours]
    owner = min((entry for entry in others if not entry.get("subresource")), key=_written_at, default=None)
    if ours is None or owner is None:
        return
    handed = {**owner, "fieldsV1": _union(owner.get("fieldsV1") or {}, ours.get("fieldsV1") or {})}
    kept = [handed if entry is owner else entry for entry in others]
    patch = {"metadata": {"managedFields": kept, "resourceVersion": meta["resourceVersion"]}}
    place = (target.api_version, target.kind, target.name, target.namespace)
    cluster.patch(*place, patch, field_manager=WRITER)


def _is_ours(entry: Obj) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (WRITER, "Update", "")


def _written_at(entry: Obj) -> datetime:
    return datetime.fromisoformat(entry["time"]) if entry.get("time") else datetime.max.replace(tzinfo=UTC)


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of both sets.

    Whoever made a map owns it as such, too, which the server forgets where somebody else changes what is in it.
    """
    both = one | {name: _union(one.get(name, {}), inner) for name, inner in other.items()}
    return {name: {".": {}, **inner} if name in MAPS and inner else inner for name, inner in both.items()}
