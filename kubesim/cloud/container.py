"""Kubernetes Engine: the cluster and its node pools, to be read, and resized by machines that come and go."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from kubesim import data
from kubesim.cloud.compute import Refuse
from kubesim.cloud.errors import CloudError
from kubesim.cloud.request import CloudRequest, number_of
from kubesim.cloud.state import CloudState
from kubesim.errors import Obj
from kubesim.gpu.nodes import POOL_LABEL, PRODUCTS, PROJECT, ZONE, node, node_name
from kubesim.gpu.products import machine_of
from kubesim.times import micro

_table = data.beside(__file__, "container.yaml")
CLUSTERS = f"projects/{PROJECT}/locations/{ZONE}/clusters"
CLUSTER = f"{CLUSTERS}/{PROJECT}"
POOLS, OPERATIONS = f"{CLUSTER}/nodePools", f"projects/{PROJECT}/locations/{ZONE}/operations"
READABLE = re.compile(r"projects/[^/]+/locations/[^/]+/clusters/[^/]+(/nodePools(/[^/]+)?)?")
BASE = "https://container.googleapis.com/v1/"
ACCELERATOR, COUNT = "cloud.google.com/gke-accelerator", "cloud.google.com/gke-accelerator-count"
HOSTNAME = "kubernetes.io/hostname"
SYSTEM_LABEL = re.compile(r"(kubernetes\.io|google\.com|nvidia\.com|gke\.io)/")
EPOCH = datetime.fromtimestamp(0, UTC)
VERSION = "1.34.4-gke.1047000"
EFFECTS = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}
MAX_POOL, MAX_NODES, MAX_OPERATIONS = 16, 32, 100
NO_QUOTA = (
    "Insufficient regional quota to satisfy request: the project has a quota of {most} machines, {free} available."
)


class Machines(Protocol):
    """The cluster's nodes."""

    def listed(self) -> Iterable[Obj]:
        """Return the Node objects there are."""

    def add(self, node: Obj) -> Awaitable[None]:
        """Let a new machine join."""

    def remove(self, name: str) -> Awaitable[None]:
        """Take a machine away, with its Node object."""


def _filled(found: Any, own: dict[str, str]) -> Any:
    if isinstance(found, dict):
        return {key: _filled(below, own) for key, below in found.items()}
    if isinstance(found, list):
        return [_filled(below, own) for below in found]
    return found.format(**own) if isinstance(found, str) else found


class Container:
    """Answers the requests of container/v1."""

    def __init__(self, state: CloudState, machines: Machines, require: Refuse, own: Obj, seed: str) -> None:
        """``own``: the cluster's ``endpoint``, ``ca`` (PEM) and ``created``; ``seed`` sets its nodes' names apart."""
        self._state = state
        self._machines = machines
        self._require = require
        self._seed = seed
        self._running = ""
        ca = base64.b64encode(own["ca"]).decode()
        names = {"project": PROJECT, "zone": ZONE, "region": ZONE.rpartition("-")[0], "version": VERSION}
        self._own = {**names, "ca": ca, "endpoint": own["endpoint"], "created": own["created"]}

    async def answer(self, asked: CloudRequest) -> Obj:
        """Answer a request. Raises CloudError."""
        path = re.sub(r"^(projects/[^/]+)/zones/", r"\1/locations/", asked.path)
        if asked.method == "GET" and path in (CLUSTERS, CLUSTERS.replace(ZONE, "-")):
            self._require(asked.user, "container.clusters.list", f"projects/{PROJECT}")
            return {"clusters": [self._cluster()]}
        if asked.method == "GET" and READABLE.fullmatch(path):
            self._require(asked.user, "container.clusters.get", path)
            return self._read(path)
        if asked.method == "GET" and path.startswith(f"{OPERATIONS}/"):
            self._require(asked.user, "container.operations.get", path)
            if (operation := self._state.get(path)) is None:
                raise _missing(path)
            return operation
        if asked.method in ("POST", "PUT") and (pool := re.fullmatch(rf"{POOLS}/([^/:]+)[:/]setSize", path)):
            self._require(asked.user, "container.clusters.update", CLUSTER)
            return await self._resize(asked, pool[1])
        raise asked.refused()

    def _read(self, path: str) -> Obj:
        pools = {f"{POOLS}/{pool['name']}": pool for pool in self.pools()}
        if path == POOLS:
            return {"nodePools": [*pools.values()]}
        if path == CLUSTER:
            return self._cluster()
        if path not in pools:
            raise _missing(path)
        return pools[path]

    def pools(self) -> list[Obj]:
        """Return the node pools."""
        return [self._pool(name, here) for name, here in self._members().items()]

    def groups(self) -> list[Obj]:
        """Return the managed instance groups of the pools, for Compute Engine."""
        return [
            {**_filled(_table()["group"], self._names(name, here)), "id": number_of(name), "targetSize": len(here)}
            for name, here in self._members().items()
        ]

    @property
    def present(self) -> bool:
        """Tell whether the cluster is a cloud's: it has node pools, if only empty ones."""
        return bool(self._state.below(POOLS)) or any(map(_of_cloud, self._machines.listed()))

    def note_pools(self) -> None:
        """Keep what the machines of each pool are like, whatever becomes of its nodes."""
        for name, here in self._members().items():
            self._state.put(f"{POOLS}/{name}", self._kept(name, here))

    def _members(self) -> dict[str, list[Obj]]:
        """Return the nodes of each pool, the oldest first."""
        found: dict[str, list[Obj]] = {item["name"]: [] for item in self._state.below(POOLS)}
        for obj in sorted(self._machines.listed(), key=lambda obj: str(obj["metadata"]["creationTimestamp"])):
            pool = (obj["metadata"].get("labels") or {}).get(POOL_LABEL)
            if pool and _of_cloud(obj):
                found.setdefault(pool, []).append(obj)
        return dict(sorted(found.items()))

    def _kept(self, name: str, here: list[Obj]) -> Obj:
        """Return what is kept of a pool, or would be."""
        if (kept := self._state.get(f"{POOLS}/{name}")) is not None:
            return kept
        labels, taints = here[0]["metadata"]["labels"], here[0]["spec"].get("taints") or ()
        product = next(
            (key for key, known in PRODUCTS.items() if known.accelerator == labels.get(ACCELERATOR)), "H100"
        )
        gpus = int(labels.get(COUNT, 0))
        usual = node(0, gpus, EPOCH, PRODUCTS[product])["metadata"]["labels"]
        more = {key: text for key, text in labels.items() if usual.get(key) != text and not key.endswith("/hostname")}
        return {
            "name": name, "gpus": gpus, "product": product, "labels": more, "initialNodeCount": len(here),
            "taints": [taint for taint in taints if "kubernetes.io/" not in taint["key"]],
        }  # fmt: skip

    def _names(self, pool: str, here: list[Obj]) -> dict[str, str]:
        first = here[0]["metadata"]["name"] if here else node_name(pool, 0, self._seed)
        base = first.rpartition("-")[0]
        return {**self._own, "pool": pool, "base": base, "group": f"{base}-grp"}

    def _pool(self, name: str, here: list[Obj]) -> Obj:
        kept = self._kept(name, here)
        product, gpus = PRODUCTS[kept["product"]], kept["gpus"]
        names = {**self._names(name, here), "machine": machine_of(product, gpus).name}
        shown: Obj = {**_filled(_table()["pool"], names), "initialNodeCount": kept["initialNodeCount"]}
        if gpus:
            driver = {"gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"}}
            entry = {"acceleratorCount": str(gpus), "acceleratorType": product.accelerator, **driver}
            shown["config"]["accelerators"] = [entry]
        if taints := kept["taints"]:
            shown["config"]["taints"] = [{**taint, "effect": EFFECTS[taint["effect"]]} for taint in taints]
        if own := {key: text for key, text in kept["labels"].items() if not SYSTEM_LABEL.search(key)}:
            shown["config"]["labels"] = own
        return {**shown, "etag": _etag(name, len(here))}

    def _cluster(self) -> Obj:
        members = self._members()
        pools = [self._pool(name, here) for name, here in members.items()]
        return {
            **_filled(_table()["cluster"], self._own),
            "id": hashlib.sha256(self._seed.encode()).hexdigest(),
            "currentNodeCount": sum(map(len, members.values())),
            "nodePools": pools,
            "instanceGroupUrls": [url for pool in pools for url in pool["instanceGroupUrls"]],
            "etag": _etag(pools),
        }

    async def _resize(self, asked: CloudRequest, name: str) -> Obj:
        """Bring a pool to another size; the newest machines go first."""
        members, wanted = self._members(), asked.body.get("nodeCount", 0)
        if name not in members:
            raise _missing(f"{POOLS}/{name}")
        if not isinstance(wanted, int) or isinstance(wanted, bool) or not 0 <= wanted <= MAX_POOL:
            raise CloudError(400, f"node_count must be between 0 and {MAX_POOL}.")
        here = members[name]
        free = MAX_NODES - sum(map(len, members.values()))
        if wanted - len(here) > max(free, 0):
            raise CloudError(403, NO_QUOTA.format(most=MAX_NODES, free=max(free, 0)), reason="quotaExceeded")
        if self._running:
            text = f"Cluster is running incompatible operation {self._running}."
            raise CloudError(400, text, status="FAILED_PRECONDITION")
        operation = self._operation(asked, name)
        self._running = operation["name"]
        try:
            for obj in here[wanted:]:
                await self._machines.remove(obj["metadata"]["name"])
            for _ in range(wanted - len(here)):
                await self._machines.add(self._machine(name, here, asked))
        finally:
            self._running = ""
        self._state.put(f"{OPERATIONS}/{operation['name']}", operation)
        return operation

    def _machine(self, pool: str, here: list[Obj], asked: CloudRequest) -> Obj:
        """Return the Node object of a pool's next machine."""
        kept, there = self._kept(pool, here), [*self._machines.listed()]
        taken = {entry["address"] for obj in there for entry in obj["status"]["addresses"]}
        index = next(at for at in range(250) if f"10.128.0.{at + 2}" not in taken)
        made = node(index, kept["gpus"], asked.now, PRODUCTS[kept["product"]], self._seed)
        base, own = self._names(pool, here)["base"], made["metadata"]["name"]
        ends = (node_name(pool, at, self._seed).rpartition("-")[2] for at in range(250))
        name = next(free for end in ends if (free := f"{base}-{end}") not in taken)
        labels = {**made["metadata"]["labels"], **kept["labels"], HOSTNAME: name, POOL_LABEL: pool}
        made["metadata"] |= {"name": name, "labels": labels}
        made["spec"] |= {"providerID": made["spec"]["providerID"].replace(own, name), "taints": kept["taints"]}
        for entry in made["status"]["addresses"]:
            entry["address"] = name if entry["address"] == own else entry["address"]
        return made

    def _operation(self, asked: CloudRequest, pool: str) -> Obj:
        at, number = micro(asked.now), number_of(f"{pool}{asked.now}")
        for old in sorted(self._state.below(OPERATIONS), key=lambda item: str(item["startTime"]))[:-MAX_OPERATIONS]:
            self._state.drop(f"{OPERATIONS}/{old['name']}")
        name = f"operation-{number[:13]}-{number[-8:]}"
        links = {"selfLink": f"{OPERATIONS}/{name}", "targetLink": f"{POOLS}/{pool}"}
        full = {key: BASE + link.replace("locations", "zones") for key, link in links.items()}
        return {
            "name": name, "zone": ZONE, "location": ZONE, "status": "DONE", "operationType": "SET_NODE_POOL_SIZE",
            "startTime": at, "endTime": at, **full,
        }  # fmt: skip


def _of_cloud(obj: Obj) -> bool:
    """Tell whether a node is a machine of the cloud."""
    return str(obj["spec"].get("providerID", "")).startswith("gce://")


def _etag(*found: Any) -> str:
    return hashlib.sha256(repr(found).encode()).hexdigest()[:32]


def _missing(path: str) -> CloudError:
    return CloudError(404, f"Not found: {path[:300]}.")
