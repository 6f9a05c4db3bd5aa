"""Verdicts on NVSentinel's pipeline: as designed, under way, or stuck, and then what a person can do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from faults.nvsentinel.stages import Stage, StageState
from faults.nvsentinel.watched import (
    BY_HAND,
    MANAGED,
    GpuFault,
    NodeState,
    Watched,
    awaited_pods,
    is_installed,
    monitor_runs,
    order_of,
    parse_time,
    pods_left,
    record_state,
)
from faults.xids import Sentinel, xids

POLL = timedelta(seconds=30)
"""Of the monitor: it reads the journal so often."""
DETECT, ACT, DRAIN, REPAIR = POLL * 2, timedelta(seconds=30), timedelta(seconds=60), timedelta(minutes=10)
"""For so long it may take to detect, to take the next step, to drain, and to repair, before it counts as stuck."""
RESET_BREAKER = (
    'kubectl patch configmap circuit-breaker -n nvsentinel --type=merge -p \'{"data":{"status":"CLOSED"}}\''
)
DRAIN_FLAGS = "--ignore-daemonsets --delete-emptydir-data"
LOGS = "kubectl logs -n nvsentinel -l app={app} --tail=50"


class Outlook(StrEnum):
    """The standing of the pipeline, in a word."""

    ABSENT = "not installed"
    UNDER_WAY = "under way"
    AS_DESIGNED = "as designed"
    STUCK = "stuck"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement: the outlook, why in a sentence, and what to do; ``command`` may be run by whoever wants to."""

    outlook: Outlook
    text: str
    advice: str = ""
    command: str = ""


def judge(fault: GpuFault, stages: Sequence[Stage], watched: Watched, now: datetime) -> Verdict:
    """Return whether NVSentinel does with a fault what it is to do."""
    node = NodeState.find(watched, fault.node)
    if not is_installed(watched):
        return Verdict(Outlook.ABSENT, "NVSentinel is not installed in this cluster: nobody cordons or repairs.")
    if node is None:
        return Verdict(Outlook.OVER, "The node has gone.")
    done = {stage.name: stage.at for stage in stages if stage.state == StageState.DONE}
    path = xids()[fault.xid].sentinel
    early = _before_detection(fault, node, watched, path) or _ended(fault, node, done)
    if early is not None:
        return early
    if "detected" not in done and "quarantined" not in done:
        return _undetected(fault, watched, now)
    if not path.cordons:
        return Verdict(
            Outlook.AS_DESIGNED,
            f"Xid {fault.xid} is an event with the action {path.action}: the node is neither cordoned nor drained.",
        )
    if "quarantined" not in done:
        return _uncordoned(fault, node, done["detected"], now)
    return _in_quarantine(fault, node, watched, done, path, now)


def _before_detection(fault: GpuFault, node: NodeState, watched: Watched, path: Sentinel) -> Verdict | None:
    if fault.layers == "cuda":
        return Verdict(Outlook.AS_DESIGNED, "It reads the kernel log, in which this fault does not show.")
    if path.cordons and node.labels.get(MANAGED) == "false":
        label = f"kubectl label node {fault.node} {MANAGED}-"
        return Verdict(Outlook.AS_DESIGNED, "The node has opted out by its label.", "Take the label off.", label)
    if path.cordons and watched.breaker_tripped:
        text = (
            "The circuit breaker has tripped: too many nodes were cordoned. None is cordoned or uncordoned any more."
        )
        return Verdict(Outlook.STUCK, text, "Find out why so many fail, then reset the breaker.", RESET_BREAKER)
    return None


def _ended(fault: GpuFault, node: NodeState, done: dict[str, datetime | None]) -> Verdict | None:
    if "recovered" in done:
        return Verdict(Outlook.OVER, "The node is back in service with all of its GPUs.")
    if fault.over_at is not None and not node.is_held and not node.conditions:
        return Verdict(Outlook.OVER, "The fault has ended, and NVSentinel holds nothing against the node.")
    return None


def _undetected(fault: GpuFault, watched: Watched, now: datetime) -> Verdict:
    if now - fault.at <= DETECT:
        seconds = POLL.total_seconds()
        return Verdict(Outlook.UNDER_WAY, f"Not detected yet: the monitor reads the log every {seconds:.0f} s.")
    logs = LOGS.format(app="syslog-health-monitor")
    if not monitor_runs(watched, fault.node):
        pods = f"kubectl get pods -n nvsentinel -o wide --field-selector spec.nodeName={fault.node}"
        return Verdict(Outlook.STUCK, "No syslog-health-monitor runs on the node.", "Bring it back.", pods)
    if fault.repeats:
        return Verdict(
            Outlook.STUCK,
            "Suppressed as a duplicate: the same line was told of before, and the GPU has had no reset since.",
            "Reset the GPU or reboot the node, or inject another Xid or GPU.",
            logs,
        )
    return Verdict(Outlook.STUCK, "Not detected, though the monitor runs.", "Look at what the monitor logs.", logs)


def _uncordoned(fault: GpuFault, node: NodeState, detected_at: datetime | None, now: datetime) -> Verdict:
    if BY_HAND in node.notes:
        return Verdict(
            Outlook.STUCK,
            "Somebody has uncordoned the node by hand: NVSentinel leaves it alone until its condition is gone.",
            "Cordon the node by hand, or repair the GPU.",
            f"kubectl cordon {fault.node}",
        )
    if now - (detected_at or fault.at) <= ACT:
        return Verdict(Outlook.UNDER_WAY, "Detected; fault-quarantine is to cordon the node.")
    logs = LOGS.format(app="fault-quarantine")
    return Verdict(Outlook.STUCK, "Detected, and not cordoned.", "Look at what fault-quarantine logs.", logs)


def _in_quarantine(
    fault: GpuFault,
    node: NodeState,
    watched: Watched,
    done: dict[str, datetime | None],
    path: Sentinel,
    now: datetime,
) -> Verdict:
    if "drained" not in done:
        return _draining(fault, node, watched, done["quarantined"] or fault.at, now)
    if "remediated" not in done:
        return _remediating(fault, node, watched, path, now)
    if now - (done["remediated"] or now) <= DETECT:
        return Verdict(Outlook.UNDER_WAY, "Repaired; the node is uncordoned once its condition is gone.")
    return Verdict(
        Outlook.STUCK,
        "Repaired, and not uncordoned: not every error of the node has been followed by a healthy sign.",
        "Look at the node's conditions; a reset or a reboot clears what is left.",
        f"kubectl describe node {fault.node}",
    )


def _draining(fault: GpuFault, node: NodeState, watched: Watched, since: datetime, now: datetime) -> Verdict:
    if node.state == "drain-failed" or record_state(watched, fault).get("userPodsEvictionStatus") == "Failed":
        return _drain_failed(fault.node, pods_left(watched, fault.node))
    event = awaited_pods(watched, fault)
    waits = str(event.get("message", "")) if event is not None else "Waiting for pods to finish."
    if now - since <= DRAIN:
        return Verdict(Outlook.UNDER_WAY, f"The node is being drained. {waits}")
    return Verdict(
        Outlook.STUCK,
        waits,
        "In the mode AllowCompletion it waits for ever: end the pods, or change the mode of their namespace.",
        f"kubectl drain {fault.node} {DRAIN_FLAGS}",
    )


def _drain_failed(node: str, left: Sequence[str]) -> Verdict:
    text = "The drain has failed, and NVSentinel does not try again: nothing is repaired until somebody helps."
    if not left:
        logs = LOGS.format(app="node-drainer")
        return Verdict(Outlook.STUCK, f"{text} No pod is left there now.", "Look at what node-drainer logs.", logs)
    named = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
    advice = f"Drain the node by hand, or end these pods: {named}."
    return Verdict(Outlook.STUCK, text, advice, f"kubectl drain {node} {DRAIN_FLAGS}")


def _remediating(fault: GpuFault, node: NodeState, watched: Watched, path: Sentinel, now: datetime) -> Verdict:
    logs = LOGS.format(app="fault-remediation")
    if node.state == "remediation-failed" and path.repair == "people":
        text = f"There is no automatic repair for Xid {fault.xid}: the node stays cordoned for people to look at."
        return Verdict(Outlook.AS_DESIGNED, text, f"NVIDIA's action is {xids()[fault.xid].catalog}.")
    if node.state == "remediation-failed":
        return Verdict(Outlook.STUCK, "The repair has failed.", "Repair the node by hand.", logs)
    order = order_of(watched, fault)
    if order is None:
        if now - fault.at <= DETECT + ACT + DRAIN:
            return Verdict(Outlook.UNDER_WAY, "Drained; fault-remediation is to order the repair.")
        return Verdict(Outlook.STUCK, "Drained, and no repair was ordered.", "Look at what it logs.", logs)
    kind, name = order.get("kind", "order"), order["metadata"]["name"]
    began = parse_time(order["metadata"].get("creationTimestamp")) or now
    if now - began <= REPAIR:
        return Verdict(Outlook.UNDER_WAY, f"{kind} {name} is being carried out.")
    show = f"kubectl get {kind.lower()} {name} -o yaml"
    return Verdict(Outlook.STUCK, f"{kind} {name} is not done.", "Look at its status and the janitor.", show)
