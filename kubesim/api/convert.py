"""Two versions of one kind: events.k8s.io/v1 has other names for fields of an Event, autoscaling/v1 fewer fields.

Nothing scales by an autoscaler, so a change through version 1 keeps the share of the CPU alone; upstream keeps the
fields that version 1 lacks in annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesim.asking import Talk
from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry
from kubesim.store import Stored

TARGET, USED = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
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
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    if spec.get(TARGET) is not None:
        target = {"type": "Utilization", "averageUtilization": spec[TARGET]}
        new["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    counts = {"currentMetrics": None, **{name: value for name, value in status.items() if name in COUNTS}}
    if status.get(USED) is not None:
        current = {"averageUtilization": status[USED]}
        counts["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    return {**obj, "spec": new, "status": counts, "apiVersion": "autoscaling/v2"}


def to_v1(obj: Obj) -> Obj:
    """Return an autoscaler of version 2 in version 1, which knows no metric but the CPU."""
    spec, status = obj["spec"], obj.get("status") or {}
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    new |= _cpu_share(spec.get("metrics"), "target", TARGET)
    counts = {name: status.get(name, 0) for name in ("currentReplicas", "desiredReplicas")}
    counts |= {name: value for name, value in status.items() if name in COUNTS}
    counts |= _cpu_share(status.get("currentMetrics"), "current", USED)
    return {**obj, "spec": new, "status": counts, "apiVersion": "autoscaling/v1"}


def _cpu_share(metrics: Sequence[Obj] | None, part: str, name: str) -> Obj:
    """Return the first share of the CPU in ``part`` of some metrics as the field ``name``, if there is one."""
    sources = [metric.get("resource") or {} for metric in metrics or ()]
    shares = [source.get(part, {}).get("averageUtilization") for source in sources if source.get("name") == "cpu"]
    return next(({name: share} for share in shares if share is not None), {})


VERSIONS = {"autoscaling/v1": (to_v2, to_v1)}
"""By apiVersion: how objects of a version become what is stored, and the reverse."""
