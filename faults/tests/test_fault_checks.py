"""Checks of an injected Xid: what each answer of a cluster means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faults.check_results import Outcome
from faults.errors import NotFound, Unreachable
from faults.fault_checks import run_checks
from faults.fault_preview import in_short
from faults.nvsentinel import GpuFault
from faults.tests.fakes import OF_THE_CLUSTER, FakeCluster
from faults.xids import xids

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LINE = "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."


class GpuCluster(FakeCluster):
    """A node of eight GPUs whose driver and logs say what a test wants."""

    def __init__(self):
        super().__init__(OF_THE_CLUSTER)
        self.listed = "GPU 0: NVIDIA H100\nGPU 1: NVIDIA H100\n"
        self.logged, self.monitor_log, self.is_silent, self.inside = "", "", False, ""
        self.offered, self.others = "8", {}
        self.pods = [pod("gpu-operator", "nvidia-driver-daemonset-x", app="nvidia-driver-daemonset")]
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}, "spec": {}, "status": {}}
        self.create(node)
        self.add_agent("gpu-1")

    def get(self, api_version, kind, name, namespace=""):
        found = super().get(api_version, kind, name, namespace)
        status = {"allocatable": {"nvidia.com/gpu": self.offered}, "capacity": {"nvidia.com/gpu": "8"}}
        return {**found, "status": status}

    def list(self, api_version, kind, namespace="", field_selector=""):
        if kind in self.others:
            return self.others[kind]
        if kind == "HealthEvent":
            raise NotFound("no such kind")
        if kind != "Pod":
            return super().list(api_version, kind, namespace)
        mine = [one for one in self.pods if namespace in ("", one["metadata"]["namespace"])]
        return [*super().list(api_version, kind, namespace), *mine]

    def run_command(self, namespace, name, container, command):
        if self.is_silent:
            raise Unreachable("the kubelet does not answer")
        if "ldd" in command[-1]:
            return 0, self.inside
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
    agent, gpu, log, offer, users, monitor, marks, events, *_ = run_checks(cluster, fault, "run-1-0")
    return {
        "agent": agent, "gpu": gpu, "log": log, "offer": offer, "users": users, "monitor": monitor, "marks": marks,
        "events": events,
    }  # fmt: skip


def look_at_cuda(cluster):
    """Return the checks of the CUDA fault library."""
    return run_checks(cluster, GpuFault("gpu-1", 0, 79, NOON), "run-1-0")[8:]


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


def test_the_same_xid_of_another_gpu_is_not_taken_for_the_one_that_is_looked_for(cluster):
    strike(cluster)
    cluster.listed = "Unable to determine the device handle for GPU0: 0000:0A:00.0: Unknown Error\n"
    found = look(cluster)["log"]
    assert (found.outcome, found.lines) == (Outcome.UNEXPECTED, (LINE,))
    assert "the line of GPU 0 is missing" in found.diagnosis
    mine = LINE.replace("0000:04", "0000:0a")
    cluster.logged = f"{LINE}\n{mine}"
    found = look(cluster)["log"]
    assert (found.outcome, found.lines) == (Outcome.EXPECTED, (mine,))


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


def test_a_gpu_that_hangs_its_programs_is_marked_and_ends_none_of_them(cluster):
    strike(cluster)
    found = look(cluster, xid=74, layers="hang")
    assert found["offer"].outcome == Outcome.EXPECTED
    assert found["users"].diagnosis == "Processes on the GPU wait for it and never return."
    assert in_short(xids()[74], "hang") == f"{found['users'].diagnosis} The node offers one GPU less."


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


SETTINGS = {
    "LD_PRELOAD": "/cuda-fault/fake_cuda_xid79.so",
    "CUDA_FAULT_INJECTION_ENABLED": "1",
    "CUDA_XID_TYPE": "79",
}
INSIDE = (
    "LD_PRELOAD=/cuda-fault/fake_cuda_xid79.so\nfake_cuda_xid79.so\n\t/cuda-fault/fake_cuda_xid79.so (0x00007f1c2a)\n"
)


def spec_with(settings):
    return {
        "nodeName": "gpu-1",
        "containers": [{"name": "c", "env": [{"name": k, "value": v} for k, v in settings.items()]}],
    }


def preloading(name="decode-1", *, exit_code=0, component="worker", **changed):
    """Return a worker that was patched as the guide does it, whose compiler has ended."""
    made = pod("dynamo", name, **{"app": "vllm", "nvidia.com/dynamo-component-type": component})
    made["spec"] = spec_with({**SETTINGS, **changed})
    ended = (
        {"terminated": {"exitCode": exit_code}}
        if exit_code is not None
        else {"waiting": {"reason": "ImagePullBackOff"}}
    )
    made["status"]["initContainerStatuses"] = [{"name": "compile-cuda-fault-lib", "state": ended}]
    return made


def deployment(settings=SETTINGS, **status):
    """Return the patched workload, whose two pods are of the new form unless ``status`` says otherwise."""
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "vllm"}}, "template": {"spec": spec_with(settings)}}
    meta = {"namespace": "dynamo", "name": "decode", "generation": 3}
    return {"metadata": meta, "spec": spec, "status": {"observedGeneration": 3, "updatedReplicas": 2, **status}}


def patched(cluster, *pods, workload=None):
    """Let the guide's library be in a workload and in pods."""
    cluster.pods += pods
    cluster.inside = INSIDE
    meta = {"namespace": "dynamo", "name": "cuda-fault-injection-lib"}
    cluster.others = {"ConfigMap": [{"metadata": meta}], "Deployment": [workload or deployment()], "StatefulSet": []}


def told(cluster):
    """Return what is not as expected of the library, and what to do about it."""
    return {one.title: (one.diagnosis, one.command) for one in look_at_cuda(cluster) if one.outcome != "expected"}


def test_where_nobody_preloads_the_library_one_line_says_so(cluster):
    [one] = look_at_cuda(cluster)
    assert (one.outcome, "No pod preloads" in one.diagnosis) == (Outcome.NOTE, True)


def test_a_library_that_is_compiled_set_and_loaded_is_as_expected(cluster):
    patched(cluster, preloading())
    found = look_at_cuda(cluster)
    assert [one.outcome for one in found] == [Outcome.EXPECTED] * 3
    assert found[2].title == "Programs in decode-1 load it"


@pytest.mark.parametrize(
    ("worker", "title", "why"),
    [
        (preloading(exit_code=1), "The library is compiled in decode-1", "has ended with 1"),
        (preloading(exit_code=None), "The library is compiled in decode-1", "the node must be able to pull"),
        (preloading(CUDA_FAULT_INJECTION_ENABLED="0"), "The variables are set in decode-1", "passes everything on"),
        (preloading(CUDA_XID_TYPE="43"), "The variables are set in decode-1", "as for Xid 43, the node for Xid 79"),
        (preloading(component="frontend"), "Pods that use no CUDA", "Only workers use CUDA"),
    ],
)
def test_programs_that_do_not_fail_have_a_reason(cluster, worker, title, why):
    patched(cluster, worker)
    assert why in told(cluster)[title][0]


def test_a_file_that_is_missing_is_told_from_one_that_is_not_loaded(cluster):
    patched(cluster, preloading())
    cluster.inside = "LD_PRELOAD=/cuda-fault/fake_cuda_xid79.so\n"
    assert "has no fake_cuda_xid79.so" in told(cluster)["Programs in decode-1 load it"][0]
    cluster.inside += "fake_cuda_xid79.so\n"
    assert "ldd could not tell" in told(cluster)["Programs in decode-1 load it"][0]


def test_pods_from_before_the_change_are_to_be_restarted(cluster):
    patched(cluster, pod("dynamo", "decode-old", app="vllm"), workload=deployment(updatedReplicas=1))
    found = told(cluster)
    assert found["Pods of decode have been restarted"][1] == "kubectl delete pod -n dynamo decode-old"
    assert found["decode takes its new form"][0] == "1 of 2 pods are of the new form."


def test_a_controller_that_has_not_seen_the_change_is_named(cluster):
    patched(cluster, preloading(), workload=deployment(observedGeneration=2))
    assert "grep 409" in told(cluster)["decode takes its new form"][0]


def test_what_a_clean_up_leaves_is_named_with_its_command(cluster):
    patched(cluster, workload=deployment(settings={}))
    ending = pod("dynamo", "decode-1")
    ending["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    cluster.pods.append(ending)
    found = told(cluster)
    assert found["The clean-up is complete"][1] == "kubectl delete configmap cuda-fault-injection-lib -n dynamo"
    forced = "kubectl delete pod -n dynamo decode-1 --force --grace-period=0"
    assert found["Pods end when they are deleted"][1] == forced


def test_a_gpu_without_an_xid_is_judged_by_its_sensors(cluster):
    cluster.pods.append(pod("ml", "train", gpus=1))
    (agent,) = cluster.agents.values()
    agent.faults["run-1-0"] = {"fault_id": "run-1-0", "kind": "gpu"}
    fault = GpuFault("gpu-1", 0, 0, NOON, effect="throttle")
    there, sensors, users = run_checks(cluster, fault, "run-1-0")
    assert (there.outcome, sensors.outcome) == (Outcome.EXPECTED, Outcome.NOTE)
    assert "power brake" in sensors.diagnosis
    assert "slower" in users.diagnosis


def test_health_events_are_shown_where_a_cluster_has_them(cluster):
    assert "in a database" in look(cluster)["events"].diagnosis
    spec = {
        "nodeName": "gpu-1",
        "errorCode": ["79"],
        "checkName": "SysLogsXIDError",
        "recommendedAction": "RESTART_BM",
    }
    cluster.others = {"HealthEvent": [{"spec": spec, "status": {"nodeQuarantined": "Quarantined"}}]}
    found = look(cluster)["events"]
    assert (found.outcome, found.lines) == (
        Outcome.EXPECTED,
        ("SysLogsXIDError 79 RESTART_BM nodeQuarantined=Quarantined",),
    )
    assert look(cluster, xid=48)["events"].outcome == Outcome.UNEXPECTED
