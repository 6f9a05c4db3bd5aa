"""Checks of an injected Xid: what each answer of a cluster means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faults.errors import Unreachable
from faults.fault_checks import Outcome, run_checks
from faults.nvsentinel import GpuFault
from faults.tests.fakes import OF_THE_CLUSTER, FakeCluster

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LINE = "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."


class GpuCluster(FakeCluster):
    """A node of eight GPUs whose driver and logs say what a test wants."""

    def __init__(self):
        super().__init__(OF_THE_CLUSTER)
        self.listed = "GPU 0: NVIDIA H100\nGPU 1: NVIDIA H100\n"
        self.logged, self.monitor_log, self.is_silent = "", "", False
        self.offered = "8"
        self.pods = [pod("gpu-operator", "nvidia-driver-daemonset-x", app="nvidia-driver-daemonset")]
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}, "spec": {}, "status": {}}
        self.create(node)
        self.add_agent("gpu-1")

    def get(self, api_version, kind, name, namespace=""):
        found = super().get(api_version, kind, name, namespace)
        status = {"allocatable": {"nvidia.com/gpu": self.offered}, "capacity": {"nvidia.com/gpu": "8"}}
        return {**found, "status": status}

    def list(self, api_version, kind, namespace="", field_selector=""):
        if kind != "Pod":
            return super().list(api_version, kind, namespace)
        mine = [one for one in self.pods if namespace in ("", one["metadata"]["namespace"])]
        return [*super().list(api_version, kind, namespace), *mine]

    def run_command(self, namespace, name, container, command):
        if self.is_silent:
            raise Unreachable("the kubelet does not answer")
        return 0, self.logged if "journalctl" in command[-1] else self.listed

    def logs(self, namespace, name, container="", previous=False, tail_lines=None):
        return self.monitor_log


def pod(namespace, name, *, gpus=0, **labels):
    """Return a pod that runs on the node."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "c", "resources": limits}]},
        "status": {"phase": "Running", "containerStatuses": [{"restartCount": 2}]},
    }


@pytest.fixture
def cluster():
    return GpuCluster()


def look(cluster, xid=79, **more):
    """Return the checks by their titles' first words."""
    fault = GpuFault("gpu-1", 0, xid, NOON, **more)
    agent, gpu, log, offer, users, monitor, marks = run_checks(cluster, fault, "run-1-0")
    return {
        "agent": agent, "gpu": gpu, "log": log, "offer": offer, "users": users, "monitor": monitor, "marks": marks,
    }  # fmt: skip


def strike(cluster):
    """Let a whole Xid 79 be there."""
    (agent,) = cluster.agents.values()
    agent.faults["run-1-0"] = {"fault_id": "run-1-0", "kind": "xid"}
    cluster.offered, cluster.logged = "7", LINE
    cluster.pods += [pod("nvsentinel", "syslog-health-monitor-x"), pod("ml", "train", gpus=1)]
    cluster.monitor_log = f"ErrorCode:79 {LINE}"


def test_a_fault_that_is_whole_is_as_expected_everywhere(cluster):
    strike(cluster)
    found = look(cluster)
    judged = {name: check.outcome for name, check in found.items() if check.outcome != Outcome.NOTE}
    assert judged == dict.fromkeys(("agent", "gpu", "log", "offer", "monitor"), Outcome.EXPECTED)
    assert found["log"].lines == (LINE,)
    assert found["log"].command == (
        'kubectl exec -n gpu-operator nvidia-driver-daemonset-x -- journalctl -k | grep "Xid.*79"'
    )
    assert found["users"].lines == ("ml/train: Running, 2 restarts",)
    assert "All processes on the GPU die" in found["users"].diagnosis


def test_each_missing_part_has_its_diagnosis(cluster):
    found = look(cluster)
    assert "The agent runs and has it no more" in found["agent"].diagnosis
    assert "The line is missing" in found["log"].diagnosis
    assert "has not marked the GPU" in found["offer"].diagnosis
    assert "nothing crashes" in found["users"].diagnosis
    assert found["monitor"].diagnosis == "NVSentinel is not installed."
    cluster.listed = ""
    assert look(cluster, xid=43)["gpu"].diagnosis == "nvidia-smi does not list GPU 0."
    cluster.pods = [pod("nvsentinel", "fault-quarantine-x")]
    found = look(cluster)
    assert found["monitor"].diagnosis == "No monitor runs on the node."
    assert (found["gpu"].outcome, found["log"].outcome) == (Outcome.NOTE, Outcome.NOTE)


def test_layers_and_xids_that_leave_something_alone_are_not_held_against_it(cluster):
    strike(cluster)
    cluster.offered, cluster.logged, cluster.monitor_log = "8", "", ""
    cuda = look(cluster, layers="cuda")
    assert (cuda["log"].outcome, cuda["monitor"].outcome) == (Outcome.NOTE, Outcome.NOTE)
    assert cuda["offer"].outcome == Outcome.EXPECTED
    assert look(cluster, xid=43)["offer"].outcome == Outcome.EXPECTED
    assert "Pods keep running" in look(cluster, layers="log")["users"].diagnosis
    assert "Xid 43 needs none" in look(cluster, xid=43)["marks"].diagnosis


def test_a_cluster_that_does_not_answer_costs_its_own_check_alone(cluster):
    strike(cluster)
    cluster.is_silent = True
    found = look(cluster)
    assert found["log"].outcome == Outcome.ERROR
    assert (found["log"].title, found["log"].diagnosis) == (
        "The kernel log has the Xid", "Could not be run: the kubelet does not answer",
    )  # fmt: skip
    assert found["offer"].outcome == Outcome.EXPECTED


def test_without_an_agent_nothing_can_be_injected_and_a_fault_taken_back_may_be_gone(cluster):
    assert look(cluster, over_at=NOON)["agent"].outcome == Outcome.EXPECTED
    cluster.delete("v1", "Pod", next(iter(cluster.agents)), "node-agents")
    assert "No agent runs on the node" in look(cluster)["agent"].diagnosis
