"""NVSentinel's pipeline in every state: whether that is as designed or stuck, and what is to be done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faults.nvsentinel import GpuFault, Outlook, StageState, Watched, find_stages, judge

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
STATE = "dgxc.nvidia.com/nvsentinel-state"
AT_NOON = {"k8saas.nvidia.com/cordon-timestamp": "2026-05-04T12-00-32Z"}
HELD = {"quarantineHealthEvent": "[]"}
CONDITION = {
    "type": "SysLogsXIDError",
    "status": "True",
    "message": "ErrorCode:79 PCI:0000:04:00",
    "lastTransitionTime": "2026-05-04T12:00:20Z",
}


def pod(name, namespace="nvsentinel", owner="DaemonSet"):
    meta = {"name": name, "namespace": namespace, "ownerReferences": [{"kind": owner}]}
    return {"metadata": meta, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}}


MONITOR = pod("syslog-health-monitor-x")
TRAINING = pod("train-0", "ml", "Job")


def node(state="", *, labels=None, notes=HELD, conditions=(CONDITION,)):
    """Return a node that is in quarantine since 32 s after noon, in a state of the pipeline."""
    marks = {**AT_NOON, **({STATE: state} if state else {}), **(labels or {})}
    meta = {"name": "gpu-1", "labels": marks if notes else labels or {}, "annotations": notes}
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": meta, "spec": {"unschedulable": bool(notes)}, "status": {"conditions": [ready, *conditions]}}


def event(reason, message):
    about = {"kind": "Node", "name": "gpu-1"}
    meta = {"name": "e", "creationTimestamp": "2026-05-04T12:00:40Z"}
    return {"metadata": meta, "involvedObject": about, "reason": reason, "message": message}


def order(**status):
    meta = {"name": "maintenance-1", "creationTimestamp": "2026-05-04T12:01:40Z"}
    return {"kind": "RebootNode", "metadata": meta, "spec": {"nodeName": "gpu-1"}, "status": status}


def record(**status):
    spec = {
        "nodeName": "gpu-1",
        "errorCode": ["79"],
        "isHealthy": False,
        "generatedTimestamp": "2026-05-04T12:00:11Z",
    }
    return {"metadata": {"name": "r"}, "spec": spec, "status": status}


AWAITING = event("AwaitingPodCompletion", "Waiting for following pods to finish: [ml/train-0]")
WELL = node(notes={}, conditions=())
AS_DESIGNED, STUCK, UNDER_WAY = Outlook.AS_DESIGNED, Outlook.STUCK, Outlook.UNDER_WAY
CASES = [
    ("nothing yet", {"nodes": [WELL]}, 20, UNDER_WAY, "Not detected yet", ""),
    ("no monitor", {"nodes": [WELL], "pods": [pod("fault-quarantine-x")]}, 90, STUCK, "No syslog", "get pods"),
    ("not detected", {"nodes": [WELL]}, 90, STUCK, "Not detected, though", "logs -n nvsentinel"),
    ("duplicate", {"nodes": [WELL], "repeats": True}, 90, STUCK, "Suppressed as a duplicate", "logs"),
    ("breaker", {"nodes": [node()], "tripped": True}, 90, STUCK, "circuit breaker has tripped", "circuit-breaker"),
    (
        "opted out",
        {"nodes": [node(labels={"k8saas.nvidia.com/ManagedByNVSentinel": "false"})]},
        90,
        AS_DESIGNED,
        "opted out",
        "kubectl label node gpu-1",
    ),
    ("not cordoned", {"nodes": [node(notes={})]}, 90, STUCK, "Detected, and not cordoned", "fault-quarantine"),
    (
        "uncordoned by hand",
        {"nodes": [node(notes={"quarantinedNodeUncordonedManually": "True"})]},
        90,
        STUCK,
        "uncordoned the node by hand",
        "kubectl cordon gpu-1",
    ),
    ("draining", {"nodes": [node("draining")], "events": [AWAITING]}, 60, UNDER_WAY, "being drained. Waiting", ""),
    (
        "awaiting completion",
        {"nodes": [node("draining")], "events": [AWAITING]},
        300,
        STUCK,
        "Waiting for following pods to finish: [ml/train-0]",
        "kubectl drain gpu-1",
    ),
    (
        "drain failed",
        {"nodes": [node("drain-failed")], "pods": [MONITOR, TRAINING]},
        60,
        STUCK,
        "The drain has failed, and NVSentinel does not try again",
        "kubectl drain gpu-1 --ignore-daemonsets",
    ),
    (
        "drain failed, all gone",
        {"nodes": [node("drain-failed")]},
        60,
        STUCK,
        "No pod is left there now",
        "node-drainer",
    ),
    (
        "drain failed in the record",
        {
            "nodes": [node("draining")],
            "pods": [MONITOR, TRAINING],
            "records": [record(nodeQuarantined="Quarantined", userPodsEvictionStatus="Failed")],
        },
        60,
        STUCK,
        "The drain has failed",
        "kubectl drain gpu-1",
    ),
    ("no order", {"nodes": [node("drain-succeeded")]}, 600, STUCK, "no repair was ordered", "fault-remediation"),
    ("repairing", {"nodes": [node("remediating")], "orders": [order()]}, 200, UNDER_WAY, "being carried out", ""),
    ("repair hangs", {"nodes": [node("remediating")], "orders": [order()]}, 3600, STUCK, "is not done", "rebootnode"),
    (
        "repair failed",
        {"nodes": [node("remediation-failed")]},
        200,
        STUCK,
        "The repair has failed",
        "fault-remediation",
    ),
    (
        "not uncordoned",
        {"nodes": [node("remediation-succeeded")], "orders": [order(completionTime="2026-05-04T12:03:00Z")]},
        900,
        STUCK,
        "Repaired, and not uncordoned",
        "describe node",
    ),
]


def look(nodes=(), pods=(MONITOR,), events=(), orders=(), tripped=False, records=(), after=60, xid=79, **fault):
    """Return the stages and the verdict so many seconds after an Xid at noon."""
    struck = GpuFault("gpu-1", 0, xid, NOON, **fault)
    watched = Watched(nodes, pods, events, orders, tripped, records)
    stages = find_stages(struck, watched)
    return {stage.name: stage for stage in stages}, judge(struck, stages, watched, NOON + timedelta(seconds=after))


@pytest.mark.parametrize(
    ("name", "world", "after", "outlook", "text", "command"), CASES, ids=[case[0] for case in CASES]
)
def test_each_state_has_its_verdict_and_what_to_do(name, world, after, outlook, text, command):
    _, verdict = look(**world, after=after)
    assert (verdict.outlook, text in verdict.text) == (outlook, True), verdict
    assert command in verdict.command
    if outlook == Outlook.STUCK:
        assert verdict.advice
        assert verdict.command


def test_a_drain_that_failed_ends_the_way_there_and_names_the_pods():
    stages, verdict = look([node("drain-failed")], [MONITOR, TRAINING])
    assert stages["draining"].state == StageState.DONE
    assert stages["drained"].state == StageState.FAILED
    assert {stages[name].state for name in ("remediating", "remediated", "uncordoned")} == {StageState.WAITING}
    assert "end these pods: ml/train-0" in verdict.advice


def test_a_record_tells_exactly_when_it_was_detected_and_how_far_it_has_come():
    noted = record(nodeQuarantined="Quarantined", userPodsEvictionStatus="Succeeded", faultRemediated=True)
    stages, _ = look([node()], records=[noted])
    assert stages["detected"].at == NOON + timedelta(seconds=11)
    assert stages["remediated"].state == StageState.DONE
    other = {**noted, "spec": {**noted["spec"], "errorCode": ["48"]}}
    assert look([WELL], records=[other])[0]["detected"].state == StageState.NOW


@pytest.mark.parametrize(("xid", "layers"), [(43, "combined"), (94, "combined"), (79, "cuda")])
def test_what_needs_no_cordon_is_as_designed(xid, layers):
    told = event("SysLogsXIDErrorIsNotHealthy", f"ErrorCode:{xid} PCI:0000:04:00")
    assert look([WELL], events=[told], xid=xid, layers=layers)[1].outlook == Outlook.AS_DESIGNED


def test_an_error_that_people_have_to_repair_waits_for_them_by_design():
    _, verdict = look([node("remediation-failed")], xid=74)
    assert (verdict.outlook, "for people to look at" in verdict.text) == (Outlook.AS_DESIGNED, True)


def test_without_nvsentinel_nobody_cordons():
    assert look([WELL], pods=[])[1].outlook == Outlook.ABSENT
