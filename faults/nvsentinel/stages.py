"""Stages of NVSentinel's pipeline for one fault, each with its time as far as objects or an observer can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from faults.nvsentinel.watched import (
    CORDONED_AT,
    UNCORDONED_AT,
    GpuFault,
    NodeState,
    Obj,
    Watched,
    awaited_pods,
    event_of,
    is_done,
    is_since,
    order_of,
    parse_time,
    record_of,
    record_state,
    seen_at,
)
from faults.xids import xids

STAGES = (
    "detected",
    "quarantined",
    "draining",
    "drained",
    "remediating",
    "remediated",
    "uncordoned",
    "recovered",
)
_REACHED = {
    "quarantined": "quarantined",
    "draining": "draining",
    "drain-failed": "draining",
    "drain-succeeded": "drained",
    "remediating": "remediating",
    "remediation-failed": "remediating",
    "remediation-succeeded": "remediated",
}
"""The last stage that each word of the state label proves."""
_FAILED = {"drain-failed": "drained", "remediation-failed": "remediated"}
_RECORDED = (
    ("nodeQuarantined", ("Quarantined", "AlreadyQuarantined"), "quarantined"),
    ("userPodsEvictionStatus", ("InProgress", "Failed"), "draining"),
    ("userPodsEvictionStatus", ("Succeeded", "AlreadyDrained"), "drained"),
    ("faultRemediated", (True,), "remediated"),
)
"""Fields of a record, and the stages that their values prove."""
Times = dict[str, datetime | None]


class StageState(StrEnum):
    """The standing of a stage. SKIPPED: a later one came without it. NOT_PLANNED: not on this Xid's path."""

    DONE = "done"
    NOW = "now"
    WAITING = "waiting"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_PLANNED = "not planned"


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. ``at`` is None where nobody can tell when it was reached."""

    name: str
    state: StageState
    at: datetime | None = None


def find_stages(fault: GpuFault, watched: Watched, seen: Mapping[str, datetime] | None = None) -> tuple[Stage, ...]:
    """Return the stages of a fault. ``seen``: when an observer first saw each; the objects forget most of it."""
    node = NodeState.find(watched, fault.node)
    cordons = xids()[fault.xid].sentinel.cordons
    reached = _reached(fault, watched, node, cordons) if node else {}
    times: Times = {**(seen or {}), **{name: at or (seen or {}).get(name) for name, at in reached.items()}}
    failed = _FAILED.get(node.state, "") if node else ""
    if cordons and record_state(watched, fault).get("userPodsEvictionStatus") == "Failed":
        failed = "drained"
    if not cordons:
        return tuple(_of_event(name, times) for name in STAGES)
    times = _in_order(times)
    last = max((STAGES.index(name) for name in times), default=-1)
    return tuple(_stage(index, times, last, failed) for index in range(len(STAGES)))


def _in_order(times: Times) -> Times:
    """Return the times with none after that of a later stage: what an observer saw, it may have seen late."""
    latest: datetime | None = None
    ordered: Times = {}
    for name in reversed([name for name in STAGES if name in times]):
        at = times[name]
        latest = min((one for one in (at, latest) if one is not None), default=None)
        ordered[name] = None if at is None else latest
    return ordered


def _of_event(name: str, times: Times) -> Stage:
    """Return a stage of an Xid that is an event and no more."""
    if name in times:
        return Stage(name, StageState.DONE, times[name])
    return Stage(name, StageState.NOW if name == STAGES[0] else StageState.NOT_PLANNED)


def _stage(index: int, times: Times, last: int, failed: str) -> Stage:
    name = STAGES[index]
    if name in times:
        return Stage(name, StageState.DONE, times[name])
    if name == failed:
        return Stage(name, StageState.FAILED)
    if index < last:
        return Stage(name, StageState.SKIPPED)
    return Stage(name, StageState.NOW if index == last + 1 and not failed else StageState.WAITING)


def _reached(fault: GpuFault, watched: Watched, node: NodeState, cordons: bool) -> Times:
    """Return the stages that the objects prove, with the times that they tell.

    Where this Xid does not cordon, a quarantine of its node is due to another one.
    """
    times = _detected(fault, watched, node)
    if not cordons:
        return times
    order = order_of(watched, fault)
    if node.is_held and is_since(node.stamped_at(CORDONED_AT), fault):
        proven = STAGES.index(_REACHED.get(node.state, "quarantined"))
        times |= {name: times.get(name) for name in STAGES[: proven + 1] if name != "draining" or proven == 2}
        times["quarantined"] = node.stamped_at(CORDONED_AT)
    if (waiting := awaited_pods(watched, fault)) and "quarantined" in times:
        times["draining"] = parse_time(waiting.get("firstTimestamp")) or seen_at(waiting)
    noted = record_state(watched, fault)
    for field, values, stage in _RECORDED:
        if noted.get(field) in values:
            times.setdefault(stage)
    if order is not None:
        times |= _ordered(order)
    return times | _returned(fault, node, times)


def _detected(fault: GpuFault, watched: Watched, node: NodeState) -> Times:
    told_at, event, record = node.told_at(fault.xid), event_of(watched, fault), record_of(watched, fault)
    if record is not None:
        return {"detected": parse_time(record["spec"].get("generatedTimestamp"))}
    if is_since(told_at, fault):
        return {"detected": told_at}
    return {"detected": seen_at(event)} if event is not None else {}


def _ordered(order: Obj) -> Times:
    """Return what an order proves: it is given for emptied nodes alone."""
    status = order.get("status") or {}
    began = parse_time(status.get("startTime") or order["metadata"].get("creationTimestamp"))
    times: Times = {"quarantined": None, "drained": None, "remediating": began}
    return {**times, "remediated": parse_time(status["completionTime"])} if is_done(order) else times


def _returned(fault: GpuFault, node: NodeState, times: Times) -> Times:
    uncordoned_at = node.stamped_at(UNCORDONED_AT)
    if node.is_cordoned or not is_since(uncordoned_at, fault):
        return {}
    if not node.is_well:
        return {"uncordoned": uncordoned_at}
    return {"uncordoned": uncordoned_at, "recovered": uncordoned_at}
