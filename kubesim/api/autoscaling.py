"""autoscaling/v1: a HorizontalPodAutoscaler as it was before it knew more metrics than the CPU.

What the old version has no field for is kept in annotations, as upstream keeps it: metrics with the names of the
first versions, and the behavior with those of upstream's own structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kubesim.errors import Obj
from kubesim.schema.defaults import autoscaler_spec

PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, BEHAVIOR, CONDITIONS = f"{PREFIX}metrics", f"{PREFIX}behavior", f"{PREFIX}conditions"
CURRENT = f"{PREFIX}current-metrics"
NOTES = (METRICS, BEHAVIOR, CONDITIONS, CURRENT)
TARGET, CURRENT_SHARE = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
KEPT = ("scaleTargetRef", "minReplicas", "maxReplicas")
COUNTS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
REFERENCE = ("kind", "name", "apiVersion")
ZERO = "0"
"""What stands for a quantity that the old version cannot leave out."""

Types = type | tuple[type, ...]
Field = tuple[str, tuple[str, ...], Types, str | None]
QUANTITY: Types = (str, int, float)


def _fields(part: str, word: str, *, needed: bool) -> dict[str, tuple[Field, ...]]:
    """Return by source: name in version 1, path in version 2, types, and what stands for nothing."""
    nothing = ZERO if needed else None
    metric: Field = ("metricName", ("metric", "name"), str, "")
    share: Field = (f"{word}AverageUtilization", (part, "averageUtilization"), int, None)
    average: Field = (f"{word}AverageValue", (part, "averageValue"), QUANTITY, nothing)
    selector = (("metric", "selector"), dict, None)
    return {
        "object": (
            ("target", ("describedObject",), dict, None),
            metric,
            (f"{word}Value", (part, "value"), QUANTITY, ZERO),
            ("selector", *selector),
            ("averageValue", (part, "averageValue"), QUANTITY, None),
        ),
        "pods": (metric, (f"{word}AverageValue", (part, "averageValue"), QUANTITY, ZERO), ("selector", *selector)),
        "resource": (("name", ("name",), str, ""), share, average),
        "containerResource": (("name", ("name",), str, ""), share, average, ("container", ("container",), str, "")),
        "external": (
            metric,
            ("metricSelector", *selector),
            (f"{word}Value", (part, "value"), QUANTITY, nothing),
            (f"{word}AverageValue", (part, "averageValue"), QUANTITY, None),
        ),
    }


WANTED, MEASURED = _fields("target", "target", needed=False), _fields("current", "current", needed=True)
TYPES = {
    "object": ("averageValue", "AverageValue", "Value"),
    "pods": ("averageValue", "AverageValue", "AverageValue"),
    "resource": ("averageUtilization", "Utilization", "AverageValue"),
    "containerResource": ("averageUtilization", "Utilization", "AverageValue"),
    "external": ("value", "Value", "AverageValue"),
}
"""By source: the value that decides what type the target is of, with it and without it."""
WAYS: Mapping[str, Types] = {"scaleUp": dict, "scaleDown": dict}
RULES: Mapping[str, Types] = {
    "stabilizationWindowSeconds": int,
    "selectPolicy": str,
    "policies": list,
    "tolerance": QUANTITY,
}
POLICY: Mapping[str, Types] = {"type": str, "value": int, "periodSeconds": int}


def to_v2(obj: Obj) -> Obj:
    """Return an autoscaler of version 1 in version 2."""
    spec, notes = obj.get("spec") or {}, dict((obj.get("metadata") or {}).get("annotations") or {})
    told = {name: _read(notes.pop(name, "")) for name in NOTES}
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    metrics = [_typed(metric) for metric in _each(told[METRICS], WANTED)]
    if spec.get(TARGET) is not None:
        target = {"type": "Utilization", "averageUtilization": spec[TARGET]}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        new["metrics"] = metrics
    if behavior := _small(told[BEHAVIOR]):
        new["behavior"] = behavior
    without = [way for way, rules in behavior.items() if "policies" not in rules]
    autoscaler_spec(new)
    for way in without:
        del behavior[way]["policies"]  # version 1 adds none
    status = {name: value for name, value in (obj.get("status") or {}).items() if name in COUNTS}
    if conditions := [each for each in _list(told[CONDITIONS]) if isinstance(each, dict)]:
        status["conditions"] = conditions
    current = _each(told[CURRENT], MEASURED)
    if not current and (share := (obj.get("status") or {}).get(CURRENT_SHARE)) is not None:
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}]
    status["currentMetrics"] = current or None
    return _with(obj, notes) | {"spec": new, "status": status, "apiVersion": "autoscaling/v2"}


def to_v1(obj: Obj) -> Obj:
    """Return an autoscaler of version 2 in version 1."""
    spec, status = obj["spec"], obj.get("status") or {}
    notes = {key: text for key, text in (obj["metadata"].get("annotations") or {}).items() if key not in NOTES}
    new: Obj = {name: spec[name] for name in KEPT if name in spec}
    metrics, current = spec.get("metrics") or (), status.get("currentMetrics") or ()
    shares = [_share(metric, "target") for metric in metrics]
    wanted = [share for share in shares if share is not None]
    used = [share for metric in current if (share := _share(metric, "current")) is not None]
    others = [metric for metric, share in zip(metrics, shares, strict=True) if share is None]
    kept = {
        METRICS: [_old(metric, WANTED) for metric in others],
        CURRENT: [_old(metric, MEASURED) for metric in current],
        BEHAVIOR: _large(spec.get("behavior") or {}),
        CONDITIONS: status.get("conditions"),
    }
    notes |= {name: orjson.dumps(value).decode() for name, value in kept.items() if value}
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


# Metrics.


def _old(metric: Obj, fields: dict[str, tuple[Field, ...]]) -> Obj:
    """Return a metric with the names of version 1."""
    new: Obj = {"type": metric["type"]}
    for source in [source for source in fields if metric.get(source)]:
        new[source] = {}
        for name, path, _, nothing in fields[source]:
            value: Any = metric[source]
            for step in path:
                value = (value or {}).get(step)
            if name == "target" and value:
                value = {key: value[key] for key in REFERENCE if key in value}
            if value is not None or nothing is not None:
                new[source][name] = nothing if value is None else value
    return new


def _each(told: Any, fields: dict[str, tuple[Field, ...]]) -> list[Obj]:
    """Return metrics with the names of version 2; what a person has spoiled is left out."""
    found = []
    for metric in [each for each in _list(told) if isinstance(each, dict)]:
        new: Obj = {"type": str(metric.get("type", ""))}
        for source in [source for source in fields if isinstance(metric.get(source), dict)]:
            new[source] = {}
            for name, path, types, _ in fields[source]:
                if isinstance(value := metric[source].get(name), types):
                    place = new[source]
                    for step in path[:-1]:
                        place = place.setdefault(step, {})
                    place[path[-1]] = value
        found.append(new)
    return found


def _typed(metric: Obj) -> Obj:
    """Say of a metric's target what type it is of."""
    for source in [source for source in TYPES if source in metric]:
        deciding, there, absent = TYPES[source]
        target = metric[source].get("target", {})
        metric[source]["target"] = {"type": there if deciding in target else absent, **target}
    return metric


# The behavior.


def _large(behavior: Obj) -> Obj:
    """Return a behavior with the names of upstream's structure."""
    new: Obj = {}
    for way in WAYS if behavior else ():
        rules = behavior.get(way)
        new[_capital(way)] = rules and {_capital(key): rules.get(key) for key in RULES}
        if rules and rules.get("policies") is not None:
            policies = [{_capital(key): policy.get(key) for key in POLICY} for policy in rules["policies"]]
            new[_capital(way)]["Policies"] = policies
    return new


def _small(told: Any) -> Obj:
    """Return a behavior with the names of version 2, however they are written."""
    behavior = _named(told, WAYS)
    for way in behavior:
        behavior[way] = rules = _named(behavior[way], RULES)
        if "policies" in rules:
            rules["policies"] = [_named(policy, POLICY) for policy in rules["policies"]]
    return behavior


def _named(told: Any, names: Mapping[str, Types]) -> Obj:
    """Return what has one of some names, in whatever case, and is of its type."""
    known = {name.lower(): name for name in names}
    given = told.items() if isinstance(told, dict) else ()
    found = {known[key.lower()]: value for key, value in given if key.lower() in known}
    return {name: value for name, value in found.items() if isinstance(value, names[name])}


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


# Annotations.


def _list(told: Any) -> list[Any]:
    return told if isinstance(told, list) else []


def _read(text: str) -> Any:
    """Return what an annotation keeps; one that a person has spoiled counts as empty."""
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def _with(obj: Obj, notes: dict[str, str]) -> Obj:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "annotations"}
    return {**obj, "metadata": metadata | ({"annotations": notes} if notes else {})}


VERSIONS = {"autoscaling/v1": (to_v2, to_v1)}
"""By apiVersion: how objects of a version become what is stored, and the reverse."""
