"""The words of ``kubectl get``, one table of cases per kind."""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from kubesim.api.answers import columns_of, rows_of
from kubesim.api.durations import human
from kubesim.schema.cells import (
    age,
    job_completions,
    job_status,
    node_roles,
    node_status,
    pod_ready,
    pod_restarts,
    pod_status,
)
from kubesim.schema.columns import Column
from kubesim.schema.kinds import registry
from kubesim.store import Stored
from kubesim.times import stamp

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
RUNNING = {"running": {"startedAt": stamp(NOW)}}
SPEC = {"containers": [{"name": "main"}]}


def pod(*states, spec=SPEC, deleted=False, inits=(), **status):
    shown = [{"name": "main", "ready": "running" in state, "state": state} for state in states]
    started = [{"name": f"i{number}", "state": state} for number, state in enumerate(inits)]
    meta = {"deletionTimestamp": stamp(NOW)} if deleted else {}
    status = {"phase": "Pending", "containerStatuses": shown, "initContainerStatuses": started, **status}
    return {"metadata": meta, "spec": spec, "status": status}


INIT_SPEC = {**SPEC, "initContainers": [{"name": "i0"}, {"name": "i1"}]}
WAITING = {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("obj", "word"),
    [
        (pod(), "Pending"),
        (pod({"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating"),
        (pod(RUNNING, phase="Running"), "Running"),
        (pod({"waiting": {"reason": "CrashLoopBackOff"}}, phase="Running"), "CrashLoopBackOff"),
        (pod({"terminated": {"reason": "Completed", "exitCode": 0}}, phase="Succeeded"), "Completed"),
        (pod({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, phase="Running"), "OOMKilled"),
        (pod({"terminated": {"exitCode": 3}}, phase="Failed"), "ExitCode:3"),
        (pod({"terminated": {"signal": 9, "exitCode": 137}}, phase="Failed"), "Signal:9"),
        (pod(RUNNING, phase="Running", deleted=True), "Terminating"),
        (pod({"terminated": {"reason": "Completed", "exitCode": 0}}, phase="Succeeded", deleted=True), "Completed"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(WAITING, spec=INIT_SPEC, inits=[RUNNING, WAITING]), "Init:0/2"),
        (pod(WAITING, spec=INIT_SPEC, inits=[{"terminated": {"exitCode": 0}}, RUNNING]), "Init:1/2"),
        (pod(WAITING, spec=INIT_SPEC, inits=[{"waiting": {"reason": "CrashLoopBackOff"}}]), "Init:CrashLoopBackOff"),
        (pod(WAITING, spec=INIT_SPEC, inits=[{"terminated": {"exitCode": 1, "reason": "Error"}}]), "Init:Error"),
    ],
)
def test_the_status_of_a_pod(obj, word):
    assert pod_status(obj) == word


def test_ready_counts_running_containers():
    assert pod_ready(pod(RUNNING, {"waiting": {}}, spec={"containers": [{"name": "a"}, {"name": "b"}]})) == "1/2"


def test_restarts_say_how_long_ago_the_last_one_was():
    crashed = pod({"waiting": {"reason": "CrashLoopBackOff"}})
    ended = {"terminated": {"finishedAt": stamp(NOW - timedelta(seconds=20))}}
    crashed["status"]["containerStatuses"][0] |= {"restartCount": 5, "lastState": ended}
    assert pod_restarts(crashed, NOW) == "5 (20s ago)"
    assert pod_restarts(pod(RUNNING), NOW) == "0"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (150, "2m30s"), (599, "9m59s"), (600, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 300, "3h5m"), (8 * 3600 + 300, "8h"), (48 * 3600, "2d"), (51 * 3600, "2d3h"),
        (8 * 86400, "8d"), (2 * 365 * 86400, "2y"), (800 * 86400, "2y70d"), (9 * 365 * 86400, "9y"),
    ],
)  # fmt: skip
def test_durations_use_at_most_two_units(seconds, text):
    assert human(seconds) == text


@pytest.mark.parametrize(
    ("condition", "word"), [("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")]
)
def test_the_status_of_a_job_is_its_condition(condition, word):
    assert job_status({"status": {"conditions": [{"type": condition, "status": "True"}]}}) == word
    assert job_status({"status": {"conditions": [{"type": condition, "status": "False"}]}}) == "Running"


def test_completions_of_a_job():
    assert job_completions({"spec": {"completions": 3}, "status": {"succeeded": 1}}) == "1/3"
    assert job_completions({"spec": {"parallelism": 4}, "status": {}}) == "0/1 of 4"


def test_a_cordoned_node_with_roles():
    labels = {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/etcd": ""}
    ready = [{"type": "Ready", "status": "True"}]
    node = {"metadata": {"labels": labels}, "spec": {"unschedulable": True}, "status": {"conditions": ready}}
    assert node_status(node) == "Ready,SchedulingDisabled"
    assert node_roles(node) == "control-plane,etcd"


def test_a_row_is_made_once_but_its_age_is_always_that_of_the_moment():
    calls = []

    def noted(obj, now):
        calls.append(now)
        return "x"

    rows = rows_of((Column("Name", "metadata.name"), Column("Noted", noted), Column("Age", age)), "None", "v1")
    obj = Stored.seal({"metadata": {"name": "a", "creationTimestamp": stamp(NOW)}})
    shown = [orjson.loads(rows.encode(obj, NOW + timedelta(seconds=n)))["cells"] for n in (5, 90)]
    assert shown == [["a", "x", "5s"], ["a", "x", "90s"]]
    assert len(calls) == 2


def test_a_scale_has_columns_of_its_own():
    titles = [column.name for column in columns_of(registry.by_resource("deployments.apps"), scale=True)]
    assert titles == ["Name", "Desired", "Available", "Age"]
