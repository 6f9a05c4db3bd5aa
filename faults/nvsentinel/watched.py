"""NVSentinel's marks on nodes: conditions, labels, annotations, events and the orders of its janitor.

Names and formats are those that its modules write; its documentation has others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

NAMESPACE = "nvsentinel"
MONITOR = "syslog-health-monitor"
CHECKS = ("SysLogsXIDError", "SysLogsGPUFallenOff", "SysLogsSXIDError")
STATE = "dgxc.nvidia.com/nvsentinel-state"
MANAGED = "k8saas.nvidia.com/ManagedByNVSentinel"
CORDONED_AT = "k8saas.nvidia.com/cordon-timestamp"
UNCORDONED_AT = "k8saas.nvidia.com/uncordon-timestamp"
QUARANTINE = "quarantineHealthEvent"
BY_HAND = "quarantinedNodeUncordonedManually"
AWAITING = "AwaitingPodCompletion"
ORDER_VERSION, ORDER_KINDS = "janitor.dgxc.nvidia.com/v1alpha1", ("RebootNode", "GPUReset")
RECORD_VERSION, RECORD_KIND = "healthevents.dgxc.nvidia.com/v1alpha1", "HealthEvent"
BREAKER, TRIPPED = "circuit-breaker", "TRIPPED"
GPU = "nvidia.com/gpu"
ROUNDED = timedelta(seconds=1)
"""The API's times have no fractions: what follows a fault may seem to be a second older."""
_STAMP = "%Y-%m-%dT%H-%M-%SZ"
Obj = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GpuFault:
    """An Xid that we have let happen; ``over_at`` is when it was taken back, ``repeats`` an earlier one like it.

    ``effect`` is what is wrong with a GPU without an Xid, whose number is 0 then.
    """

    node: str
    gpu: int
    xid: int
    at: datetime
    layers: str = "combined"
    over_at: datetime | None = None
    repeats: bool = False
    effect: str = ""

    @property
    def title(self) -> str:
        """Return what it is, in words."""
        return f"Xid {self.xid}" if self.xid else self.effect.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster's objects as they were last heard of. ``orders`` are the janitor's, of both kinds.

    ``records`` are HealthEvents, which only clusters in guide mode have: NVSentinel keeps them in a database.
    """

    nodes: Sequence[Obj]
    pods: Sequence[Obj]
    events: Sequence[Obj]
    orders: Sequence[Obj] = ()
    breaker_tripped: bool = False
    records: Sequence[Obj] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node as NVSentinel's modules see it."""

    node: Obj

    @classmethod
    def find(cls, watched: Watched, name: str) -> NodeState | None:
        """Return the node of that name; None where it has gone."""
        return next((cls(node) for node in watched.nodes if node["metadata"]["name"] == name), None)

    @property
    def labels(self) -> Mapping[str, str]:
        """Return its labels."""
        return self.node["metadata"].get("labels") or {}

    @property
    def notes(self) -> Mapping[str, str]:
        """Return its annotations."""
        return self.node["metadata"].get("annotations") or {}

    @property
    def state(self) -> str:
        """Return the word of NVSentinel's state label; empty without one."""
        return self.labels.get(STATE, "")

    @property
    def is_held(self) -> bool:
        """Return whether it is quarantined."""
        return QUARANTINE in self.notes

    @property
    def is_cordoned(self) -> bool:
        """Return whether new pods stay away."""
        return bool(self.node.get("spec", {}).get("unschedulable"))

    @property
    def is_well(self) -> bool:
        """Return whether it is ready and offers all of its GPUs."""
        status = self.node.get("status") or {}
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        offered, there = status.get("allocatable") or {}, status.get("capacity") or {}
        return ready and offered.get(GPU) == there.get(GPU) and not self.conditions

    @property
    def conditions(self) -> list[Obj]:
        """Return NVSentinel's conditions that say that something is wrong."""
        found = (self.node.get("status") or {}).get("conditions") or ()
        return [one for one in found if one["type"] in CHECKS and one["status"] == "True"]

    def told_at(self, xid: int) -> datetime | None:
        """Return since when a condition tells of an Xid."""
        found = (one for one in self.conditions if names(xid, one.get("message", "")))
        return next((parse_time(one.get("lastTransitionTime")) for one in found), None)

    def stamped_at(self, label: str) -> datetime | None:
        """Return the time of a label."""
        try:
            return datetime.strptime(self.labels.get(label, ""), _STAMP).replace(tzinfo=UTC)
        except ValueError:
            return None


def is_installed(watched: Watched) -> bool:
    """Return whether NVSentinel's pods are in the cluster."""
    return any(_is_of_sentinel(pod) for pod in watched.pods)


def monitor_runs(watched: Watched, node: str) -> bool:
    """Return whether the monitor of a node's kernel log runs."""
    return any(
        _is_of_sentinel(pod)
        and MONITOR in pod["metadata"]["name"]
        and pod["spec"].get("nodeName") == node
        and (pod.get("status") or {}).get("phase") == "Running"
        for pod in watched.pods
    )


def event_of(watched: Watched, fault: GpuFault) -> Obj | None:
    """Return the event by which the monitor tells of a fault that needs no quarantine."""
    return next(
        (
            event
            for event in _about(watched.events, fault)
            if event.get("reason", "").startswith(CHECKS) and names(fault.xid, event.get("message", ""))
        ),
        None,
    )


def awaited_pods(watched: Watched, fault: GpuFault) -> Obj | None:
    """Return the event by which node-drainer tells for which pods it waits."""
    return next((event for event in _about(watched.events, fault) if event.get("reason") == AWAITING), None)


def order_of(watched: Watched, fault: GpuFault) -> Obj | None:
    """Return the newest order to repair the fault's node since the fault."""
    mine = [order for order in watched.orders if (order.get("spec") or {}).get("nodeName") == fault.node]
    since = [order for order in mine if is_since(parse_time(order["metadata"].get("creationTimestamp")), fault)]
    return max(since, key=lambda order: str(order["metadata"].get("creationTimestamp")), default=None)


def record_of(watched: Watched, fault: GpuFault) -> Obj | None:
    """Return the newest record of a fault's detection; None where none is kept as an object."""
    mine = [one for one in watched.records if _is_record_of(one["spec"], fault)]
    return max(mine, key=lambda one: str(one["spec"].get("generatedTimestamp")), default=None)


def record_state(watched: Watched, fault: GpuFault) -> Mapping[str, object]:
    """Return what NVSentinel's modules have noted on that record."""
    record = record_of(watched, fault)
    return (record.get("status") or {}) if record else {}


def pods_left(watched: Watched, node: str) -> list[str]:
    """Return the pods of a node that a drain has to end: those of no DaemonSet, and not NVSentinel's own."""
    return [
        f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for pod in watched.pods
        if pod["spec"].get("nodeName") == node
        and not _is_of_sentinel(pod)
        and not any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ())
        and (pod.get("status") or {}).get("phase") in ("Running", "Pending")
    ]


def is_done(order: Obj) -> bool:
    """Return whether the janitor has carried an order out."""
    return bool((order.get("status") or {}).get("completionTime"))


def names(xid: int, text: str) -> bool:
    """Return whether a message of NVSentinel is about an Xid."""
    return re.search(rf"ErrorCode:{xid}\b", text) is not None


def is_since(at: datetime | None, fault: GpuFault) -> bool:
    """Return whether something happened after a fault, and so may be due to it."""
    return at is not None and at >= fault.at - ROUNDED


def parse_time(text: object) -> datetime | None:
    """Return a time of the API."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


def seen_at(event: Obj) -> datetime | None:
    """Return when an event was last seen."""
    series = (event.get("series") or {}).get("lastObservedTime")
    created = event["metadata"].get("creationTimestamp")
    return parse_time(series or event.get("lastTimestamp") or event.get("eventTime") or created)


def _about(events: Iterable[Obj], fault: GpuFault) -> Iterable[Obj]:
    """Return the events about the fault's node since the fault."""
    for event in events:
        about = event.get("involvedObject") or {}
        if about.get("kind") == "Node" and about.get("name") == fault.node and is_since(seen_at(event), fault):
            yield event


def _is_record_of(spec: Obj, fault: GpuFault) -> bool:
    told_of = str(fault.xid) in (spec.get("errorCode") or ()) and not spec.get("isHealthy")
    is_mine = spec.get("nodeName") == fault.node and told_of
    return is_mine and is_since(parse_time(spec.get("generatedTimestamp")), fault)


def _is_of_sentinel(pod: Obj) -> bool:
    return bool(pod["metadata"].get("namespace") == NAMESPACE)
