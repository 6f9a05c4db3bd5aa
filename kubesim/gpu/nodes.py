"""Node objects: what a GPU node of a managed cluster says of itself before anything runs on it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from kubesim import data
from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import KERNEL
from kubesim.gpu.products import Machine, Product, driver, machine_of, products
from kubesim.times import stamp

PRODUCTS = products()
KUBELET_VERSION = "v1.34.4"
OS_IMAGE = "Ubuntu 22.04.5 LTS"
RUNTIME = "containerd://2.0.6"
PROJECT, ZONE = "ml-prod", "us-central1-a"
POOL_LABEL = "cloud.google.com/gke-nodepool"
SHARING_LABEL, MAX_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu", 48
ANNOTATIONS = {"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}


def node_name(pool: str, index: int, seed: str = "") -> str:
    """Return the name of the ``index``-th node of a cluster, in a pool; ``seed`` sets clusters apart."""
    return f"gke-{PROJECT}-{pool}-{_suffix(f'{seed}{pool}', 8)}-{_suffix(f'{seed}{pool}/{index}', 4)}"


def node(index: int, gpus: int, created_at: datetime, product: Product, seed: str = "") -> Obj:
    """Return the ``index``-th node of a cluster, as its kubelet registers it (metadata, spec and status)."""
    machine = machine_of(product, gpus)
    name = node_name(machine.pool, index, seed)
    capacity = _capacity(machine, gpus)
    cidr = f"10.64.{index}.0/24" if index < 256 else f"10.{65 + index // 256}.{index % 256}.0/24"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(name, machine, product, gpus), "annotations": {**ANNOTATIONS}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr], "providerID": f"gce://{PROJECT}/{ZONE}/{name}"},
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


_TABLE = data.table(__file__, "nodes.yaml")
CALM, SHORT = _TABLE["calm"], _TABLE["short"]
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


def shared_clients(labels: Mapping[str, str]) -> int:
    """Return how many containers may have the same GPU of a node in turns (GKE's time-sharing)."""
    told = labels.get(SHARING_LABEL, "")
    return min(max(int(told), 1), MAX_CLIENTS) if told.isdecimal() else 1


def network_tags(node: Obj) -> frozenset[str]:
    """Return by what firewall rules know a machine: the cluster, its node pool, itself, and its service account."""
    pool = (node["metadata"].get("labels") or {}).get(POOL_LABEL)
    return frozenset({PROJECT, pool or "", node["metadata"]["name"], f"gke-nodes@{PROJECT}.iam.gserviceaccount.com"})


def _labels(name: str, machine: Machine, product: Product, gpus: int) -> dict[str, str]:
    """Return a node's labels: with those of GPU feature discovery, the GPU operator and GKE where it has GPUs."""
    values = {
        "name": name, "machine": machine.name, "pool": machine.pool, "zone": ZONE, "region": ZONE.rsplit("-", 1)[0],
        "machine_family": machine.name.split("-")[0], "product": product, "gpus": gpus, "driver": driver(),
        "version": driver().version.split("."), "cuda": driver().cuda.split("."),
        "compute": product.compute.split("."), "capable": str(bool(product.mig)).lower(),
    }  # fmt: skip
    groups = ["labels", *(["gpus"] if gpus else []), *(["uncut"] if gpus and product.mig else [])]
    return {label: text.format(**values) for group in groups for label, text in _TABLE[group].items()}


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
