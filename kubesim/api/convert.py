"""Two versions of one kind: events.k8s.io/v1 has other names for fields of an Event, autoscaling/v1 fewer fields.

The fields that an old version lacks are kept in annotations, so that a change through it loses nothing. They have
upstream's names; what stands in them has the form of version 2, where upstream has those of older structures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kubesim.asking import Talk
from kubesim.errors import Obj
from kubesim.schema.decode import DecodeError, Decoder
from kubesim.schema.registry import Kind, Registry
from kubesim.schema.types import shape_of
from kubesim.store import Stored

PREFIX = "autoscaling.alpha.kubernetes.io/"
OF_SPEC = {"metrics": f"{PREFIX}metrics", "behavior": f"{PREFIX}behavior"}
OF_STATUS = {"conditions": f"{PREFIX}conditions", "currentMetrics": f"{PREFIX}current-metrics"}
"""The annotation of each field that version 1 has not."""
NOTES = (*OF_SPEC.values(), *OF_STATUS.values())
TARGET, CURRENT_SHARE = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
COUNTS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


class Older(dict[str, Any]):
    """An object in a version that says less than what is ``stored``."""

    def __init__(self, served: Obj, stored: Obj) -> None:
        super().__init__(served)
        self.stored = stored


def stored_kind(registry: Registry, kind: Kind) -> Kind:
    """Return the kind as which the objects of ``kind`` are worked on: where a webhook converts them, as what they are
    asked for.
    """
    converted = kind.custom is not None and kind.custom.converter is not None
    return registry.by_resource(kind.storage) if kind.storage and not converted else kind


def at_rest(kind: Kind, obj: Obj, talk: Talk | None) -> Obj:
    """Return an object that was worked on as the store keeps it. Raises Unanswered."""
    if kind.custom is None or kind.custom.converter is None:
        return obj
    kept: Obj = kind.custom.converter.converted(obj, kind.custom.converter.storage, talk)
    return kept


def to_stored(kind: Kind, stored: Kind, obj: Obj) -> Obj:
    """Return a served object as it is stored."""
    if kind == stored:
        return obj
    if kind.storage and kind.api_version in VERSIONS:
        return VERSIONS[kind.api_version][0](obj)
    return _renamed(obj, stored, kind.renames) if kind.storage else obj


def to_served(kind: Kind, obj: Obj, talk: Talk | None = None) -> Obj:
    """Return a stored object as ``kind`` serves it. Raises Unanswered where a webhook has yet to convert it."""
    if kind.storage and kind.api_version in VERSIONS:
        return Older(VERSIONS[kind.api_version][1](obj), obj)
    if kind.custom is not None:
        if kind.custom.converter is not None:
            obj = kind.custom.converter.converted(obj, kind.api_version, talk)
        obj = kind.custom.read(obj)
    if (kind.storage and kind.custom is None) or (kind.custom is not None and obj["apiVersion"] != kind.api_version):
        return _renamed(obj, kind, tuple((old, new) for new, old in kind.renames))
    return obj


def printable(obj: Obj) -> Obj:
    """Return an object in the version of which its columns speak."""
    if isinstance(obj, Older):
        return obj.stored
    known = VERSIONS.get(obj.get("apiVersion", ""))
    return known[0](obj) if known and obj.get("kind") == "HorizontalPodAutoscaler" else obj


def all_served(kind: Kind, objects: Sequence[Stored]) -> list[Obj]:
    """Return stored objects as ``kind`` serves them; a webhook converts all at once. Raises Unanswered."""
    if kind.custom is not None and kind.custom.converter is not None:
        kind.custom.converter.served(objects, kind.api_version)
    return [to_served(kind, obj) for obj in objects]


def _renamed(obj: Obj, kind: Kind, renames: tuple[tuple[str, str], ...]) -> Obj:
    names = dict(renames)
    renamed = {names.get(name, name): value for name, value in obj.items()}
    return renamed | {"kind": kind.kind, "apiVersion": kind.api_version}


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
