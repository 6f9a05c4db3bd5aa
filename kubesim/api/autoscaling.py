"""autoscaling/v1: a HorizontalPodAutoscaler as it was before it knew more metrics than the CPU.

What the old version has no field for is kept in annotations, so that a change through it loses nothing. They have
upstream's names; what stands in them has the form of version 2, where upstream has those of older structures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.types import shape_of

PREFIX = "autoscaling.alpha.kubernetes.io/"
OF_SPEC = {"metrics": f"{PREFIX}metrics", "behavior": f"{PREFIX}behavior"}
OF_STATUS = {"conditions": f"{PREFIX}conditions", "currentMetrics": f"{PREFIX}current-metrics"}
"""The annotation of each field that version 1 has not."""
NOTES = (*OF_SPEC.values(), *OF_STATUS.values())
TARGET, CURRENT_SHARE = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
COUNTS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def to_v2(obj: Obj) -> Obj:
    """Return an autoscaler of version 1 in version 2."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    notes = (obj.get("metadata") or {}).get("annotations") or {}
    told = _told(notes, OF_SPEC)
    if spec.get(TARGET) is not None:
        target = {"type": "Utilization", "averageUtilization": spec[TARGET]}
        told["metrics"] = [
            *told.get("metrics", ()),
            {"type": "Resource", "resource": {"name": "cpu", "target": target}},
        ]
    new = _decoded("V2HorizontalPodAutoscalerSpec", {name: spec[name] for name in KEPT if name in spec}, told)
    measured = _told(notes, OF_STATUS)
    if "currentMetrics" not in measured and (share := status.get(CURRENT_SHARE)) is not None:
        current = {"name": "cpu", "current": {"averageUtilization": share}}
        measured["currentMetrics"] = [{"type": "Resource", "resource": current}]
    counts = {name: value for name, value in status.items() if name in COUNTS}
    new_status = {"currentMetrics": None, **_decoded("V2HorizontalPodAutoscalerStatus", counts, measured)}
    return _with(obj, {}) | {"spec": new, "status": new_status, "apiVersion": "autoscaling/v2"}


def to_v1(obj: Obj) -> Obj:
    """Return an autoscaler of version 2 in version 1."""
    spec, status = obj["spec"], obj.get("status") or {}
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    metrics, current = spec.get("metrics") or (), status.get("currentMetrics") or ()
    wanted = [share for metric in metrics if (share := _share(metric, "target")) is not None]
    used = [share for metric in current if (share := _share(metric, "current")) is not None]
    others = [metric for metric in metrics if _share(metric, "target") is None]
    kept = {OF_SPEC["metrics"]: others, OF_SPEC["behavior"]: spec.get("behavior")}
    kept |= {note: status.get(field) for field, note in OF_STATUS.items()}
    notes = {note: orjson.dumps(value).decode() for note, value in kept.items() if value}
    counts = {name: value for name, value in status.items() if name in COUNTS}
    counts |= {name: counts.get(name, 0) for name in ("currentReplicas", "desiredReplicas")}
    if wanted:
        new[TARGET] = wanted[0]
    if used:
        counts[CURRENT_SHARE] = used[-1]
    return _with(obj, notes) | {"spec": new, "status": counts, "apiVersion": "autoscaling/v1"}


def _share(metric: Obj, part: str) -> int | None:
    """Return the utilization of the CPU that a metric aims at, or has measured."""
    source = metric.get("resource") or {}
    share = (source.get(part) or {}).get("averageUtilization")
    return int(share) if source.get("name") == "cpu" and share is not None else None


def _told(notes: Mapping[str, str], fields: Mapping[str, str]) -> Obj:
    """Return the fields that annotations keep; those that a person has spoiled count as empty."""
    found: dict[str, Any] = {}
    for field, note in fields.items():
        try:
            value = orjson.loads(notes.get(note) or "null")
        except orjson.JSONDecodeError:
            continue
        if value:
            found[field] = value
    return found


def _decoded(schema: str, plain: Obj, told: Obj) -> Obj:
    """Return a part of version 2 with its defaults, without what annotations tell in another form than its own."""
    shape = shape_of(schema)
    assert shape is not None
    try:
        return Decoder().object(shape, plain | told)
    except DecodeError:
        return Decoder().object(shape, plain)


def _with(obj: Obj, notes: dict[str, str]) -> Obj:
    """Return an object with these annotations in the place of those that are told of here."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "annotations"}
    given = (obj.get("metadata") or {}).get("annotations") or {}
    every = {name: text for name, text in given.items() if name not in NOTES} | notes
    return {**obj, "metadata": metadata | ({"annotations": every} if every else {})}


VERSIONS = {"autoscaling/v1": (to_v2, to_v1)}
"""By apiVersion: how objects of a version become what is stored, and the reverse."""
