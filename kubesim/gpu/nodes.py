"""Node objects: what a GPU node of a managed cluster says of itself before anything runs on it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection
from datetime import datetime

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import KERNEL
from kubesim.gpu.products import Product, driver, products
from kubesim.times import stamp

PRODUCTS = products()
KUBELET_VERSION = "v1.34.4"
OS_IMAGE = "Ubuntu 22.04.5 LTS"
RUNTIME = "containerd://2.0.6"
ZONE = "us-central1-a"


def node(index: int, gpus: int, created_at: datetime, product: Product) -> Obj:
    """Return the ``index``-th node of a pool, as its kubelet registers it (metadata, spec and status)."""
    pool = product.machine.pool
    name = f"gke-ml-prod-{pool}-{_suffix(pool, 8)}-{_suffix(f'{pool}/{index}', 4)}"
    capacity = _capacity(product, gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(name, product, gpus), "annotations": _annotations()},
        "spec": {
            "podCIDR": f"10.64.{index}.0/24" if index < 256 else f"10.{65 + index // 256}.{index % 256}.0/24",
            "podCIDRs": [f"10.64.{index}.0/24" if index < 256 else f"10.{65 + index // 256}.{index % 256}.0/24"],
            "providerID": f"gce://ml-prod/{ZONE}/{name}",
        },
        "status": {
            "capacity": capacity,
            "allocatable": _allocatable(capacity),
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


def _labels(name: str, product: Product, gpus: int) -> dict[str, str]:
    machine, family = product.machine.name, product.machine.name.split("-")[0]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": machine,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-container-runtime": "containerd",
        "cloud.google.com/gke-nodepool": product.machine.pool,
        "cloud.google.com/gke-os-distribution": "ubuntu",
        "cloud.google.com/gke-provisioning": "standard",
        "cloud.google.com/machine-family": family,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine,
        "topology.gke.io/zone": ZONE,
        "topology.kubernetes.io/region": ZONE.rsplit("-", 1)[0],
        "topology.kubernetes.io/zone": ZONE,
    }
    return labels | (_gpu_labels(product, gpus) if gpus else {}) | (UNCUT if gpus and product.mig else {})


def _gpu_labels(product: Product, gpus: int) -> dict[str, str]:
    """Return what GPU feature discovery and the GPU operator label, and GKE's own two."""
    version, cuda = driver().version.split("."), driver().cuda.split(".")
    compute = product.compute.split(".")
    deployed = ("container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery")
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


def _capacity(product: Product, gpus: int) -> dict[str, str]:
    capacity = {
        "cpu": str(product.machine.cpus),
        "ephemeral-storage": f"{98831908}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{product.machine.memory_gib * 1024 * 1024 - 4203517}Ki",
        "pods": "110",
    }
    return capacity | ({"nvidia.com/gpu": str(gpus)} if gpus else {})


def _allocatable(capacity: dict[str, str]) -> dict[str, str]:
    cpus = int(capacity["cpu"])
    memory = int(capacity["memory"].removesuffix("Ki"))
    kept_back = {
        "cpu": f"{cpus * 1000 - 530}m",
        "ephemeral-storage": "47093746742",
        "memory": f"{memory - 40 * 1024**2}Ki",
    }
    return capacity | kept_back


def _info(name: str) -> Obj:
    machine = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return {
        "architecture": "amd64",
        "bootID": str(uuid.uuid5(machine, "boot")),
        "containerRuntimeVersion": RUNTIME,
        "kernelVersion": KERNEL,
        "kubeProxyVersion": "",  # a kubelet says it no longer
        "kubeletVersion": KUBELET_VERSION,
        "machineID": machine.hex,
        "operatingSystem": "linux",
        "osImage": OS_IMAGE,
        "systemUUID": str(machine),
    }


def _suffix(seed: str, length: int) -> str:
    """Return letters and digits that look like those a cloud gives to pools and machines."""
    alphabet = "0123456789abcdef" if length == 8 else "bcdfghjklmnpqrstvwxz0123456789"
    digest = hashlib.sha256(seed.encode()).digest()
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:length])
