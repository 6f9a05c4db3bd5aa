"""autoscaling/v1: a HorizontalPodAutoscaler as it was before it knew more metrics than the CPU.

What the old version has no field for is kept in annotations, as upstream keeps it.
"""

from __future__ import annotations

import orjson

from kubesim.errors import Obj
from kubesim.schema.defaults import autoscaler_spec

PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, BEHAVIOR, CONDITIONS = f"{PREFIX}metrics", f"{PREFIX}behavior", f"{PREFIX}conditions"
CURRENT = f"{PREFIX}current-metrics"
TARGET, CURRENT_SHARE = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
COUNTS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def to_v2(obj: Obj) -> Obj:
    """Return an autoscaler of version 1 in version 2."""
    spec, notes = obj.get("spec") or {}, dict((obj.get("metadata") or {}).get("annotations") or {})
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    metrics = _read(notes.pop(METRICS, ""))
    if spec.get(TARGET) is not None:
        target = {"type": "Utilization", "averageUtilization": spec[TARGET]}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    if metrics:
        new["metrics"] = metrics
    if behavior := _read(notes.pop(BEHAVIOR, "")):
        new["behavior"] = behavior
    autoscaler_spec(new)
    status = {name: value for name, value in (obj.get("status") or {}).items() if name in COUNTS}
    if conditions := _read(notes.pop(CONDITIONS, "")):
        status["conditions"] = conditions
    current = _read(notes.pop(CURRENT, ""))
    if (share := (obj.get("status") or {}).get(CURRENT_SHARE)) is not None:
        usage = {"averageUtilization": share, "averageValue": "0"}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": usage}}, *current]
    status["currentMetrics"] = current or None
    return _with(obj, notes) | {"spec": new, "status": status, "apiVersion": "autoscaling/v2"}


def to_v1(obj: Obj) -> Obj:
    """Return an autoscaler of version 2 in version 1."""
    spec, status = obj["spec"], obj.get("status") or {}
    notes = dict(obj["metadata"].get("annotations") or {})
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    share, others = _apart(spec.get("metrics"), "target")
    used, measured = _apart(status.get("currentMetrics"), "current")
    kept = {METRICS: others, BEHAVIOR: spec.get("behavior"), CONDITIONS: status.get("conditions"), CURRENT: measured}
    notes |= {name: orjson.dumps(value).decode() for name, value in kept.items() if value}
    counts = {name: value for name, value in status.items() if name in COUNTS}
    counts |= {name: counts.get(name, 0) for name in ("currentReplicas", "desiredReplicas")}
    new |= {} if share is None else {TARGET: share}
    counts |= {} if used is None else {CURRENT_SHARE: used}
    return _with(obj, notes) | {"spec": new, "status": counts, "apiVersion": "autoscaling/v1"}


def _apart(metrics: list[Obj] | None, part: str) -> tuple[int | None, list[Obj]]:
    """Return the first utilization of the CPU that is aimed at, or measured, and the other metrics."""
    others = list(metrics or ())
    for metric in others:
        source = metric.get("resource") or {}
        share = (source.get(part) or {}).get("averageUtilization")
        if source.get("name") == "cpu" and share is not None:
            others.remove(metric)
            return int(share), others
    return None, others


def _read(text: str) -> list[Obj]:
    """Return what an annotation keeps; one that a person has spoiled counts as empty."""
    try:
        found: list[Obj] = orjson.loads(text) if text else []
    except orjson.JSONDecodeError:
        return []
    return found


def _with(obj: Obj, notes: dict[str, str]) -> Obj:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "annotations"}
    return {**obj, "metadata": metadata | ({"annotations": notes} if notes else {})}


VERSIONS = {"autoscaling/v1": (to_v2, to_v1)}
"""By apiVersion: how objects of a version become what is stored, and the reverse."""
