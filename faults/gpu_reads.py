"""Reads of a cluster's GPU nodes for people: which nodes can be hit, and how the driver names their GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faults.engine.node_agents import SESSION, agents
from faults.errors import ClusterError
from faults.fault_preview import GPU, GpuFacts
from faults.kube.client import Kube

OPERATOR = "gpu-operator"
DRIVER_PODS = ("nvidia-driver-daemonset", "nvidia-device-plugin-daemonset", "nvidia-dcgm-exporter")
"""Labels ``app`` of pods in which nvidia-smi runs, in the order in which they are asked."""
QUERY = ("--query-gpu=pci.bus_id,uuid,serial", "--format=csv,noheader")


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs, on which an agent of the session runs; ``allocatable``: the GPUs that it offers now."""

    name: str
    gpus: int
    allocatable: int


def gpu_nodes(kube: Kube) -> list[GpuNode]:
    """Return the nodes that can be hit, by name. Raises ClusterError."""
    reached = {agent.node for agent in agents(kube, [SESSION.namespace])}
    nodes = [_gpu_node(node) for node in kube.list("v1", "Node") if node["metadata"]["name"] in reached]
    return sorted((node for node in nodes if node.gpus), key=lambda node: node.name)


def gpu_facts(kube: Kube, node: str, gpu: int) -> GpuFacts:
    """Return how the driver names a GPU; only its number where no pod of the GPU operator can tell."""
    try:
        pod = operator_pod(kube, node)
        command = ("nvidia-smi", "-i", str(gpu), *QUERY)  # of this one alone: another may have failed
        code, output = kube.run_command(OPERATOR, pod, "", command) if pod else (1, "")
    except ClusterError:
        return GpuFacts(gpu)
    row = output.strip().split(", ")
    if code or len(row) != 3:
        return GpuFacts(gpu)
    bus, uuid, serial = row
    return GpuFacts(gpu, _kernel_address(bus), uuid, serial)


def operator_pod(kube: Kube, node: str) -> str:
    """Return the pod of the GPU operator on a node in which nvidia-smi runs; empty where there is none."""
    pods = [pod for pod in kube.list("v1", "Pod", OPERATOR) if _runs_on(pod, node)]
    by_app = {(pod["metadata"].get("labels") or {}).get("app", ""): pod["metadata"]["name"] for pod in pods}
    return str(next((by_app[app] for app in DRIVER_PODS if app in by_app), ""))


def _gpu_node(node: Mapping[str, Any]) -> GpuNode:
    status = node.get("status") or {}
    capacity, offered = status.get("capacity") or {}, status.get("allocatable") or {}
    return GpuNode(node["metadata"]["name"], int(capacity.get(GPU, 0)), int(offered.get(GPU, 0)))


def _runs_on(pod: Mapping[str, Any], node: str) -> bool:
    return pod["spec"].get("nodeName") == node and (pod.get("status") or {}).get("phase") == "Running"


def _kernel_address(bus: str) -> str:
    """Return nvidia-smi's ``00000000:04:00.0`` as the kernel log has it: ``0000:04:00``."""
    domain, _, rest = bus.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"
