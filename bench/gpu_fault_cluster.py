"""The practice cluster of the benchmark of GPU faults, and how each layer is asked there."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.programs import compiled
from faults import session_agents
from faults.engine.model import Request
from faults.engine.node_agents import Agent, find_agent
from faults.errors import ClusterError, NotFound
from faults.gpu_reads import OPERATOR, operator_pod
from faults.kube.client import Kube
from faults.kube.config import parse

Obj = dict[str, Any]
GPU = 0
READY_S = 180.0
IMAGE = "nvcr.io/nvidia/pytorch:25.03-py3"
TRAINING = ["sh", "-c", "python /workspace/train.py; sleep 1000000"]
NEW_PROCESS = ["python", "-c", 'import torch; torch.zeros(1, device="cuda")']
ADDONS = ("coredns", "gpu-operator", "monitoring", "nvsentinel")
UNMANAGED = {"metadata": {"labels": {"k8saas.nvidia.com/ManagedByNVSentinel": "false"}}}
"""NVSentinel tells of what it finds, and does not cordon: the next round needs the node."""
NAMESPACE, POD = "default", "train"
XID = "DCGM_FI_DEV_XID_ERRORS"


class Looker:
    """One node, looked at by many threads; each has a client of its own."""

    def __init__(self, kubeconfig: str) -> None:
        self._access, self._own = parse(kubeconfig), threading.local()
        self.node = sorted(node["metadata"]["name"] for node in self.kube.list("v1", "Node"))[0]
        self._asked: dict[str, Callable[[int], bool]] = {
            "kernel log": lambda xid: f": {xid}," in self._log()[self._before :],
            "nvidia-smi": lambda xid: not self._smi(),
            "CUDA, running process": lambda xid: "CUDA error" in self.kube.logs(NAMESPACE, POD),
            "allocatable": lambda xid: self._allocatable() == "7",
            "dcgm-exporter": lambda xid: f'err_code="{xid}"' in self._exported(),
            "Prometheus": lambda xid: self._scraped(xid),
            "NVSentinel": lambda xid: self._condition(xid),
        }
        self._before = 0

    @property
    def kube(self) -> Kube:
        """This thread's client."""
        if not hasattr(self._own, "kube"):
            self._own.kube = Kube(self._access)
        found: Kube = self._own.kube
        return found

    def agent(self) -> Agent:
        """Return the node's agent."""
        found = find_agent(self.kube, self.node)
        assert found is not None
        return found

    def shows(self, layer: str, xid: int) -> bool:
        """Return whether a layer shows an Xid. Raises ClusterError."""
        return self._asked[layer](xid)

    def is_well(self, layer: str) -> bool:
        """Return whether a layer shows nothing any more. Raises ClusterError."""
        match layer:
            case "nvidia-smi":
                return self._smi()
            case "allocatable":
                return self._allocatable() == "8"
            case "agent":
                return self.agent().faults(self.kube) == []
        return self.kube.run_command(NAMESPACE, POD, "", NEW_PROCESS)[0] == 0

    def train(self) -> None:
        """Let a new training run on the GPU, and note how long the kernel log is."""
        with suppress(NotFound):
            self.kube.delete("v1", "Pod", POD, NAMESPACE, grace_seconds=0)
        until(lambda: not [one for one in self.kube.list("v1", "Pod", NAMESPACE) if one["metadata"]["name"] == POD])
        limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        container = {"name": "main", "image": IMAGE, "command": TRAINING, **limits}
        spec = {"nodeName": self.node, "containers": [container], "terminationGracePeriodSeconds": 0}
        meta = {"name": POD, "namespace": NAMESPACE}
        self.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        until(lambda: _runs(self.kube.get("v1", "Pod", POD, NAMESPACE)))
        until(lambda: "step" in self.kube.logs(NAMESPACE, POD))
        self._before = len(self._log())

    def _run(self, *command: str) -> tuple[int, str]:
        pod = operator_pod(self.kube, self.node)
        return self.kube.run_command(OPERATOR, pod, "", command)

    def _log(self) -> str:
        return self._run("sh", "-c", "dmesg | grep Xid")[1]

    def _smi(self) -> bool:
        """Return whether nvidia-smi finds nothing wrong with the GPU."""
        query = "--query-gpu=index,ecc.errors.uncorrected.volatile.total,gpu_recovery_action"
        status, output = self._run("nvidia-smi", "-i", str(GPU), query, "--format=csv,noheader")
        return status == 0 and output.strip() == "0, 0, None"

    def _allocatable(self) -> str:
        return str(self.kube.get("v1", "Node", self.node)["status"]["allocatable"]["nvidia.com/gpu"])

    def _exported(self) -> str:
        pods = self.kube.list("v1", "Pod", OPERATOR)
        name = next(
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"].get("nodeName") == self.node and "dcgm-exporter" in pod["metadata"]["name"]
        )
        reply = self.kube.call(OPERATOR, f"pods/{name}:9400", Request("GET", "/metrics"))
        return "".join(line for line in reply.body.decode().splitlines() if line.startswith(f'{XID}{{gpu="{GPU}"'))

    def _scraped(self, xid: int) -> bool:
        found = self.kube.query(f'{XID}{{gpu="{GPU}",err_code="{xid}",Hostname="{self.node}"}}')
        return bool(found)

    def _condition(self, xid: int) -> bool:
        rows = self.kube.get("v1", "Node", self.node)["status"]["conditions"]
        told = [row for row in rows if row["type"] == "SysLogsXIDError" and row["status"] == "True"]
        return any(f"ErrorCode:{xid} " in row["message"] for row in told)


def until(true: Callable[[], bool]) -> None:
    """Wait until something is true; a cluster that is slow to answer is asked again."""
    waited = threading.Event()
    for _ in range(int(READY_S * 5)):
        with suppress(ClusterError):
            if true():
                return
        waited.wait(0.2)
    raise AssertionError(f"waited {READY_S:.0f} s for nothing")


@contextmanager
def gpu_cluster(folder: Path) -> Iterator[Looker]:
    """Run a cluster of two GPU nodes with agents, exporters, Prometheus and NVSentinel."""
    kubeconfig, cluster = folder / "kubeconfig", folder / "cluster.json"
    cluster.write_text(json.dumps({"nodes": [{"count": 2, "product": "H100", "gpus": 8}], "present": [IMAGE]}))
    command = [sys.executable, "-m", "kubesim", "serve", "--kubeconfig", str(kubeconfig)]
    command += ["--cluster-file", str(cluster), *(word for name in ADDONS for word in ("--addon", name))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=compiled())
    try:
        assert process.stdout is not None
        process.stdout.readline()
        looker = Looker(kubeconfig.read_text(encoding="utf-8"))
        _furnish(looker.kube)
        yield looker
    finally:
        process.terminate()
        process.wait()


def _furnish(kube: Kube) -> None:
    """Let agents run, and NVSentinel leave the nodes alone."""
    for node in kube.list("v1", "Node"):
        kube.patch("v1", "Node", node["metadata"]["name"], "", UNMANAGED)
    for obj in session_agents.objects(session_agents.SessionAgents.plan(session_agents.PRACTICE_IMAGE)):
        kube.create(obj)
    until(lambda: all(_runs(pod) for pod in kube.list("v1", "Pod")))
    until(lambda: find_agent(kube, kube.list("v1", "Node")[0]["metadata"]["name"]) is not None)


def _runs(pod: Obj) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")
