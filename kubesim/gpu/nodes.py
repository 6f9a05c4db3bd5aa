"""Node objects: what a GPU node of a managed cluster says of itself before anything runs on it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import KERNEL
from kubesim.gpu.products import Machine, Product, driver, machine_of, products
from kubesim.times import stamp

PRODUCTS = products()
KUBELET_VERSION = "v1.34.4"
OS_IMAGE = "Ubuntu 22.04.5 LTS"
RUNTIME = "containerd://2.0.6"
ZONE = "us-central1-a"


def node_name(pool: str, index: int, seed: str = "") -> str:
    """Return the name of the ``index``-th node of a cluster, in a pool; ``seed`` sets clusters apart."""
    return f"gke-ml-prod-{pool}-{_suffix(f'{seed}{pool}', 8)}-{_suffix(f'{seed}{pool}/{index}', 4)}"


def node(index: int, gpus: int, created_at: datetime, product: Product, seed: str = "") -> Obj:
    """Return the ``index``-th node of a cluster, as its kubelet registers it (metadata, spec and status)."""
    machine = machine_of(product, gpus)
    name = node_name(machine.pool, index, seed)
    capacity = _capacity(machine, gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(name, machine, product, gpus), "annotations": _annotations()},
        "spec": {
            "podCIDR": f"10.64.{index}.0/24" if index < 256 else f"10.{65 + index // 256}.{index % 256}.0/24",
            "podCIDRs": [f"10.64.{index}.0/24" if index < 256 else f"10.{65 + index // 256}.{index % 256}.0/24"],
            "providerID": f"gce://ml-prod/{ZONE}/{name}",
        },
        "status": {
            "capacity": capacity,
            "allocatable": _allocatable(capacity, machine),
            "conditions": conditions(created_at, created_at),
            "addresses": [
                {"type": "InternalIP", "address": f"10.128.{index // 250}.{index % 250 + 2}"},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _info(name),
            "images": [],
        },
    }


CALM = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
SHORT = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
"""Condition -> reason and message where it is False, and where it is True."""


def conditions(
    since: datetime, heartbeat: datetime, pressures: Collection[str] = (), not_ready: str = ""
) -> list[Obj]:
    """Return the conditions of a node; ``pressures`` are what it is short of, ``not_ready`` why it is not."""
    texts = [
        (kind, *(("True", *SHORT[kind]) if kind in pressures else ("False", *calm))) for kind, calm in CALM.items()
    ]
    ready = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
    texts.append(("Ready", "False", "KubeletNotReady", not_ready) if not_ready else ready)
    times = {"lastHeartbeatTime": stamp(heartbeat), "lastTransitionTime": stamp(since)}
    return [{"type": t, "status": s, "reason": r, "message": m} | times for t, s, r, m in texts]


async def register(client: Client, nodes: list[Obj]) -> list[str]:
    """Create the nodes that are not there yet, with their status, and return all the names."""
    for wanted in nodes:
        try:
            made = await client.create("nodes", {k: v for k, v in wanted.items() if k != "status"})
        except ApiError as error:
            if error.code != 409:
                raise
            continue
        await client.update("nodes", {**made, "status": wanted["status"]}, subresource="status")
    return [wanted["metadata"]["name"] for wanted in nodes]


def _labels(name: str, machine: Machine, product: Product, gpus: int) -> dict[str, str]:
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine.name,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-nodepool": machine.pool,
        "cloud.google.com/gke-os-distribution": "ubuntu",
        "cloud.google.com/gke-provisioning": "standard",
        "cloud.google.com/machine-family": machine.name.split("-")[0],
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.gke.io/zone": ZONE,
        "topology.kubernetes.io/region": ZONE.rsplit("-", 1)[0],
        "topology.kubernetes.io/zone": ZONE,
    }
    return labels | (_gpu_labels(product, gpus) if gpus else {}) | (UNCUT if gpus and product.mig else {})


def _gpu_labels(product: Product, gpus: int) -> dict[str, str]:
    """Return what GPU feature discovery and the GPU operator label, and GKE's own two."""
    version, cuda = driver().version.split("."), driver().cuda.split(".")
    compute = product.compute.split(".")
    deployed = ("container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery",
                "operator-validator")  # fmt: skip
    return {
        "cloud.google.com/gke-accelerator": product.accelerator,
        "cloud.google.com/gke-accelerator-count": str(gpus),
        "nvidia.com/cuda.driver-version.full": driver().version,
        "nvidia.com/cuda.driver-version.major": version[0],
        "nvidia.com/cuda.driver-version.minor": version[1],
        "nvidia.com/cuda.driver-version.revision": version[2],
        "nvidia.com/cuda.driver.major": version[0],
        "nvidia.com/cuda.driver.minor": version[1],
        "nvidia.com/cuda.driver.rev": version[2],
        "nvidia.com/cuda.runtime-version.full": driver().cuda,
        "nvidia.com/cuda.runtime-version.major": cuda[0],
        "nvidia.com/cuda.runtime-version.minor": cuda[1],
        "nvidia.com/cuda.runtime.major": cuda[0],
        "nvidia.com/cuda.runtime.minor": cuda[1],
        "nvidia.com/gpu.compute.major": compute[0],
        "nvidia.com/gpu.compute.minor": compute[1],
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.family": product.family,
        "nvidia.com/gpu.machine": "Google-Compute-Engine",
        "nvidia.com/gpu.memory": str(product.memory),
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product.label,
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": str(bool(product.mig)).lower(),
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/vgpu.present": "false",
    } | {f"nvidia.com/gpu.deploy.{name}": "true" for name in deployed}


UNCUT = {
    "nvidia.com/gpu.deploy.mig-manager": "true",
    "nvidia.com/gpu.deploy.nvsm": "true",
    "nvidia.com/mig.config": "all-disabled",
    "nvidia.com/mig.config.state": "success",
}
"""What the operator and its MIG manager have labelled a node with whose GPUs could be cut, and are not."""


def _annotations() -> dict[str, str]:
    return {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}


def _capacity(machine: Machine, gpus: int) -> dict[str, str]:
    capacity = {
        "cpu": str(machine.cpus),
        "ephemeral-storage": f"{98831908}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{machine.memory_gib * (1024 * 1024 - 2246)}Ki",
        "pods": "110",
    }
    return capacity | ({"nvidia.com/gpu": str(gpus)} if gpus else {})


RESERVED_CPU = ((1, 60), (1, 10), (2, 5), (1 << 20, 2.5))
RESERVED_MEMORY = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (1 << 20, 0.02))
"""The part that GKE keeps back of the first cores (millicores of each) and GiB (shares), and of those after them.

Source: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
"""
EVICTION_KIB = 100 * 1024


def _kept_back(amount: float, steps: tuple[tuple[int, float], ...]) -> float:
    kept = 0.0
    for size, share in steps:
        kept += min(amount, size) * share
        amount = max(amount - size, 0)
    return kept


def _allocatable(capacity: dict[str, str], machine: Machine) -> dict[str, str]:
    memory = int(capacity["memory"].removesuffix("Ki"))
    reserved = round(_kept_back(machine.memory_gib, RESERVED_MEMORY) * 1024**2)
    left = {
        "cpu": f"{machine.cpus * 1000 - round(_kept_back(machine.cpus, RESERVED_CPU))}m",
        "ephemeral-storage": "47093746742",
        "memory": f"{memory - reserved - EVICTION_KIB}Ki",
    }
    return capacity | left


def _info(name: str) -> Obj:
    machine = _uuid(f"machine/{name}")
    return {
        "architecture": "amd64",
        "bootID": str(_uuid(f"boot/{name}")),
        "containerRuntimeVersion": RUNTIME,
        "kernelVersion": KERNEL,
        "kubeProxyVersion": "",  # a kubelet says it no longer
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine.hex,
        "operatingSystem": "linux",
        "osImage": OS_IMAGE,
        "systemUUID": str(machine),
    }


def _uuid(seed: str) -> UUID:
    """Return a UUID of version 4, always the same for a seed."""
    return UUID(bytes=hashlib.sha256(seed.encode()).digest()[:16], version=4)


def _suffix(seed: str, length: int) -> str:
    """Return letters and digits that look like those a cloud gives to pools and machines."""
    alphabet = "0123456789abcdef" if length == 8 else "bcdfghjklmnpqrstvwxz0123456789"
    digest = hashlib.sha256(seed.encode()).digest()
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])
