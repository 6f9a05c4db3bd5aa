"""kube-state-metrics: what it says of each object, worked out from the object's versions when it is asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kubesim import data
from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.metrics.exposition import Exposed, Family
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Function, Timeline
from kubesim.schema import paths
from kubesim.shares import share
from kubesim.times import parse

_help: data.Reader[dict[str, str]] = data.beside(__file__, "kube_state_help.yaml")
POD_REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
JOB_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "Evicted")
ROUNDED = (("max_unavailable", "maxUnavailable", math.floor), ("max_surge", "maxSurge", math.ceil))
UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "storage": "byte"}
FORMS: dict[str, Callable[[Any], Any]] = {
    "time": lambda value: parse(value).timestamp(),
    "flag": bool,
    "count": len,
    "quantity": lambda value: quantity.parse(str(value)),
    "there": lambda value: True,
    "true": lambda value: value == "True",
    "yes": lambda value: value if value == "" else str(bool(value)).lower(),
}
"""The forms in which the table has values told."""
Line = tuple[str, dict[str, str], float]
"""(metric, labels, value)"""


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of the table; see kube_state.yaml for what the fields mean."""

    name: str
    value: str = ""
    default: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    each: str = ""
    empty: Obj | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    states: tuple[str, str, tuple[str, ...]] | None = None
    resources: str = ""
    known: Mapping[str, Container[str]] = field(default_factory=dict)
    filled: bool = False
    """True if the line is left out where all its labels are empty."""


@dataclass(frozen=True, slots=True)
class Table:
    """The metrics of every object of a kind, and the labels that all of them have."""

    prefix: str
    resource: str
    labels: Mapping[str, str]
    rows: tuple[Row, ...]


@cache
def tables() -> dict[str, Table]:
    """Return the tables by kind."""
    return {kind: _table(entry) for kind, entry in data.table(__file__, "kube_state.yaml").items()}


def _table(entry: dict[str, Any]) -> Table:
    prefix = entry["prefix"]
    rows = [Row(f"{prefix}_{name}", *told) for name, _, *told in entry["metrics"]]
    rows += [Row(f"{prefix}_{name}", labels=told, filled=True) for name, told in entry.get("series", {}).items()]
    lines = [line for found in entry.get("lines", ()) for line in _with_init(found)]
    rows += [Row(**{**line, "name": f"{prefix}_{line['name']}"}) for line in lines]
    return Table(prefix, entry["resource"], entry["labels"], tuple(rows))


def _with_init(line: Obj) -> Iterator[Obj]:
    """Yield a line, and the same of the containers that come first where the table says so."""
    rest = {name: value for name, value in line.items() if name != "init"}
    yield rest
    if "init" in line:
        where = line["each"].replace("containers", "initContainers").replace("containerS", "initContainerS")
        yield rest | {"name": f"init_{line['name']}", "each": where}


def lines(kind: str, obj: Obj, wanted: str = "") -> Iterator[Line]:
    """Yield all that is said of an object, or what one metric says."""
    table = tables().get(kind)
    if table is None:
        return
    labels = _texts(table.labels, obj)
    for row in table.rows:
        if wanted in ("", row.name):
            yield from _said_by(row, obj, labels)
    for more in _MORE.get(kind, ()):
        yield from (line for line in more(obj, labels, table.prefix) if wanted in ("", line[0]))


def _said_by(row: Row, obj: Obj, labels: dict[str, str]) -> Iterator[Line]:
    entries: Iterable[Any] = [*paths.each(obj, row.each)] if row.each else (obj,)
    for entry in entries or ([row.empty] if row.empty is not None else ()):
        if (row.needs and not _at(entry, row.needs)) or any(_at(entry, at) != of for at, of in row.where.items()):
            continue
        told = _texts(row.labels, entry) | _texts(row.also, obj)
        told |= {name: "unknown" for name, choices in row.known.items() if told[name] not in choices}
        if not row.filled or any(told.values()):
            yield from _values(row, entry, labels | told)


def _values(row: Row, entry: Any, labels: dict[str, str]) -> Iterator[Line]:
    if row.states is not None:
        label, path, words = row.states
        now = _at(entry, path)
        for word in words if now else ():
            yield row.name, {**labels, label: word}, float(now.lower() == word.lower())
    elif row.resources:
        for name, amount in (_at(entry, row.resources) or {}).items():
            key, unit = resource(name)
            yield row.name, {**labels, "resource": key, "unit": unit}, float(quantity.parse(str(amount)))
    else:
        value = _at(entry, row.value) if row.value else 1
        value = row.default if value is None else value
        if value is not None:
            yield row.name, labels, float(value)


def _texts(labels: Mapping[str, str], entry: Any) -> dict[str, str]:
    return {name: str(_at(entry, told) or "") for name, told in labels.items()}


def _at(entry: Any, told: str) -> Any:
    """Return what lies at a path, in the form that may stand behind it: ``=text`` is that text."""
    path, form, text = _read(told)
    if text is not None:
        return text
    value = paths.first(entry, path) if path else entry
    return FORMS[form](value) if form == "yes" or (form and value is not None) else value


@cache
def _read(told: str) -> tuple[str, str, str | None]:
    path, _, form = told.partition("|")
    return path, form, told[1:] if told.startswith("=") else None


def resource(name: str) -> tuple[str, str]:
    """Return a resource's name and unit as labels: nvidia.com/gpu is (nvidia_com_gpu, integer)."""
    unit = "byte" if name.startswith("hugepages-") else UNITS.get(name, "integer")
    return re.sub(r"[^a-zA-Z0-9]", "_", name), unit


def _deployment(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    strategy = obj["spec"].get("strategy", {}).get("rollingUpdate") or {}
    for name, field_name, rounded in ROUNDED:
        if field_name in strategy:
            count = share(strategy[field_name], obj["spec"].get("replicas", 1), rounded)
            yield f"{prefix}_spec_strategy_rollingupdate_{name}", labels, float(count)


def _snake(name: str) -> str:
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", re.sub("[^a-zA-Z0-9_]", "_", name)).lower()


def _labels(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    named = {f"label_{_snake(k)}": v for k, v in (obj["metadata"].get("labels") or {}).items()}
    yield f"{prefix}_labels", {**labels, **named}, 1.0


def _pod(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    status = obj.get("status", {})
    ended = [found.get("state", {}).get("terminated") or {} for found in status.get("containerStatuses") or ()]
    reasons = {found.get("reason") for found in (status, *(status.get("conditions") or ()), *ended)}
    for reason in POD_REASONS:
        yield "kube_pod_status_reason", {**labels, "reason": reason}, float(reason in reasons)
    if finished := [parse(found["finishedAt"]).timestamp() for found in ended if found.get("finishedAt")]:
        yield "kube_pod_completion_time", labels, max(finished)


def _containers(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    """Yield what images containers have: as their pod asks for them, and as their node knows them."""
    for base, containers, statuses in CONTAINERS:
        images = {container["name"]: container.get("image", "") for container in obj["spec"].get(containers) or ()}
        for found in obj.get("status", {}).get(statuses) or ():
            told = {"container": found["name"], "image_spec": images.get(found["name"], "")}
            told |= _texts({"image": "image", "image_id": "imageID", "container_id": "containerID"}, found)
            yield f"{base}_info", {**labels, **told}, 1.0


CONTAINERS = (
    ("kube_pod_container", "containers", "containerStatuses"),
    ("kube_pod_init_container", "initContainers", "initContainerStatuses"),
)
"""(metrics' first words, field of the spec, field of the status)"""


def _node(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for label in obj["metadata"].get("labels") or {}:
        if label.startswith("node-role.kubernetes.io/"):
            yield "kube_node_role", {**labels, "role": label.partition("/")[2]}, 1.0


def _job(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    status, metric = obj.get("status", {}), "kube_job_status_failed"
    failed = float(status.get("failed", 0))
    if not failed:
        yield metric, labels, 0.0
        return
    why = [item.get("reason") for item in status.get("conditions") or () if item["type"] == "Failed"]
    for reason in JOB_REASONS if why else ():
        yield metric, {**labels, "reason": reason}, float(reason in why)
    if not any(reason in JOB_REASONS for reason in why):
        yield metric, {**labels, "reason": ""}, failed


def _quota(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for kind in ("hard", "used"):
        for name, amount in (obj.get("status", {}).get(kind) or {}).items():
            yield prefix, {**labels, "resource": name, "type": kind}, float(quantity.parse(str(amount)))


_MORE: dict[str, tuple[Callable[[Obj, dict[str, str], str], Iterator[Line]], ...]] = {
    "Pod": (_pod, _labels, _containers),
    "Node": (_node, _labels),
    "Deployment": (_deployment, _labels),
    "Job": (_job,),
    "ResourceQuota": (_quota,),
}


class KubeState:
    """The versions of every object that metrics are made of."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Timeline[Obj | None]] = {}

    def observe(self, kind: str, obj: Obj, at: float, *, deleted: bool = False) -> None:
        """Take notice of a version of an object, or of its end."""
        if kind not in tables():
            return
        key = (kind, obj["metadata"]["uid"])
        version = None if deleted else obj
        if key not in self._objects:
            self._objects[key] = Timeline(at, version)
        else:
            self._objects[key].set(at, version)

    def forget(self, before: float) -> None:
        """Drop objects that were gone before a moment."""
        gone = [key for key, line in self._objects.items() if line.last is None and line.changed <= before]
        for key in gone:
            del self._objects[key]

    def series(self, name: str, start: float, end: float, kinds: Container[str] | None = None) -> Iterator[Function]:
        """Yield the series of one metric ("" for all), one for every set of labels that an object had in the span.

        ``kinds``: those that the exporter sees, by default all.
        """
        told = {kind for kind, table in tables().items() if name.startswith(table.prefix) or not name}
        told = told if kinds is None else {kind for kind in told if kind in kinds}
        for (kind, _), versions in self._objects.items() if told else ():
            if kind not in told:
                continue
            known: set[tuple[tuple[str, str], ...]] = set()
            for obj in versions.within(start, end):
                for labels in _said(kind, obj, name) if obj is not None else ():
                    if labels not in known:
                        known.add(labels)
                        yield Function(dict(labels), _value(kind, versions, labels))

    def exposed(self, kinds: Container[str] | None = None) -> Iterator[Exposed]:
        """Yield the lines of the exporter's page; ``kinds`` as above."""
        for (kind, _), versions in self._objects.items():
            if kinds is not None and kind not in kinds:
                continue
            for name, labels, value in lines(kind, versions.last) if versions.last is not None else ():
                yield Exposed(family(name), labels, value)


@cache
def family(name: str) -> Family:
    """Return what is told of a metric, in the words of version 2.17."""
    return Family(name, "counter" if name.endswith("_total") else "gauge", _help().get(name, ""))


def _said(kind: str, obj: Obj, name: str) -> Iterator[tuple[tuple[str, str], ...]]:
    return (((NAME, metric), *labels.items()) for metric, labels, _ in lines(kind, obj, name))


def _value(
    kind: str, versions: Timeline[Obj | None], labels: tuple[tuple[str, str], ...]
) -> Callable[[float], float | None]:
    name, wanted = labels[0][1], dict(labels[1:])

    def call(moment: float) -> float | None:
        obj = versions.at(moment)
        if obj is None:
            return None
        return next((value for _, found, value in lines(kind, obj, name) if found == wanted), None)

    return call
