"""metrics-server: what nodes and pods use now, as the group metrics.k8s.io."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from fractions import Fraction
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim.api.quantity import write
from kubesim.api.selectors import parse_labels
from kubesim.api.status import not_found
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet.consumption import Process
from kubesim.kubelet.endpoint import port_of
from kubesim.kubelet.usage import MIB, SYSTEM_CPU, SYSTEM_MEMORY_MIB
from kubesim.kubelet.vitals import Ledger
from kubesim.metrics.abroad import Usage, summaries, used
from kubesim.metrics.abroad import pods as pods_of
from kubesim.network.fabric import Fabric, HttpServer, Request, Response, Server
from kubesim.schema.registry import Kind
from kubesim.shell.errors import NetworkError
from kubesim.times import stamp

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
WINDOW_S = 15
"""Over how long it averages."""
KINDS = {
    "nodes": Kind(GROUP, VERSION, "NodeMetrics", "nodes", False),
    "pods": Kind(GROUP, VERSION, "PodMetrics", "pods"),
}
JSON = {"Content-Type": "application/json"}


class MetricsServer(HttpServer):
    """Answers for the group; what it knows it asks the kubelets for, over their nodes' network."""

    def __init__(self, client: Client, clock: Clock, fabric: Fabric) -> None:
        self._client = client
        self._clock = clock
        self._fabric = fabric

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        parts = [part for part in request.path.split("/") if part]
        if parts in (["healthz"], ["livez"], ["readyz"]):
            return Response(200, b"ok")
        try:
            document = await self._answer(parts, request)
        except ApiError as error:
            return Response(error.code, orjson.dumps(error.status()), JSON)
        if document is None:
            return Response(404, b"404 page not found\n")
        return Response(200, orjson.dumps(document), JSON)

    async def _answer(self, parts: list[str], request: Request) -> Obj | None:
        if request.method not in ("GET", "HEAD"):
            text = "the server does not allow this method on the requested resource"
            raise ApiError(405, "MethodNotAllowed", text)
        selector = parse_qs(urlsplit(request.target).query).get("labelSelector", [""])[0]
        match parts:
            case ["apis", "metrics.k8s.io", "v1beta1", *rest]:
                match rest:
                    case []:
                        return _resources()
                    case ["nodes", *name]:
                        return _told("nodes", await self._nodes(selector), name)
                    case ["pods"]:
                        return _told("pods", await self._pods("", selector), [])
                    case ["namespaces", namespace, "pods", *name]:
                        return _told("pods", await self._pods(namespace, selector), name)
        return None

    async def _nodes(self, selector: str) -> list[Obj]:
        now, chosen = self._clock.now(), parse_labels(selector)
        everyone = (await self._client.list("nodes")).items
        nodes = [node for node in everyone if chosen.matches(node["metadata"].get("labels") or {})]
        abroad = await self._abroad(nodes)
        figures = [self._node(node, now) or used(abroad.get(_name(node), {}).get("node")) for node in nodes]
        return [
            _metrics("NodeMetrics", node, now) | {"usage": _usage(*usage)}
            for node, usage in zip(nodes, figures, strict=True)
            if usage is not None
        ]

    def _node(self, node: Obj, now: datetime) -> Usage | None:
        """Return what a node of this process uses."""
        running = self._processes(node)
        if running is None:
            return None
        figures = [_used(process, now) for process in running]
        return SYSTEM_CPU + sum(cpu for cpu, _ in figures), self._own_memory(node) + sum(size for _, size in figures)

    def _own_memory(self, node: Obj) -> float:
        """Return the bytes that a node uses beside its pods, as its kubelet tells."""
        ledger = getattr(self._kubelet(node), "ledger", None)
        return float(ledger.own) if isinstance(ledger, Ledger) else float(SYSTEM_MEMORY_MIB * MIB)

    async def _pods(self, namespace: str, selector: str) -> list[Obj]:
        now, chosen = self._clock.now(), parse_labels(selector)
        pods: dict[str, Obj] = {}
        nodes = (await self._client.list("nodes")).items
        async for pod, containers in self._pods_abroad(nodes, namespace):
            if chosen.matches(pod["metadata"].get("labels") or {}):
                told = [{"name": name, "usage": _usage(*usage)} for name, usage in containers]
                pods[pod["metadata"]["uid"]] = _metrics("PodMetrics", pod, now) | {"containers": told}
        for node in nodes:
            for process in self._processes(node) or ():
                meta = process.pod["metadata"]
                wanted = namespace in ("", meta["namespace"]) and chosen.matches(meta.get("labels") or {})
                if wanted and process.elapsed(now.timestamp()) is not None:
                    entry = pods.setdefault(
                        meta["uid"], _metrics("PodMetrics", process.pod, now) | {"containers": []}
                    )
                    entry["containers"].append({"name": process.container, "usage": _usage(*_used(process, now))})
        return [*pods.values()]

    async def _abroad(self, nodes: list[Obj]) -> dict[str, Obj]:
        """Return what the kubelets of other processes tell, by node."""
        return await summaries(self._fabric.outside, [node for node in nodes if self._kubelet(node) is None])

    async def _pods_abroad(
        self, nodes: list[Obj], namespace: str
    ) -> AsyncIterator[tuple[Obj, list[tuple[str, Usage]]]]:
        """Yield the pods of which other processes tell, with what their containers use; each node of its own only."""
        abroad = await self._abroad(nodes)
        everyone = (await self._client.list("pods", namespace)).items if abroad else []
        known = {(pod["spec"].get("nodeName"), pod["metadata"]["namespace"], _name(pod)): pod for pod in everyone}
        for node, told in abroad.items():
            for place, name, containers in pods_of(told):
                if (pod := known.get((node, place, name))) is not None and containers:
                    yield pod, containers

    def _processes(self, node: Obj) -> list[Process] | None:
        """Return what a node's kubelet tells; None where it does not answer."""
        told = getattr(self._kubelet(node), "processes", None)
        return [*told()] if told is not None else None

    def _kubelet(self, node: Obj) -> Server | None:
        """Return what answers on a node's kubelet's port; None where nothing does."""
        addresses = {item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()}
        try:
            return self._fabric.find(addresses.get("InternalIP", ""), port_of(node))
        except NetworkError:
            return None


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _used(process: Process, now: datetime) -> tuple[float, float]:
    """Return cores and bytes."""
    elapsed = process.elapsed(now.timestamp())
    return (0.0, 0.0) if elapsed is None else (process.usage.cpu(elapsed), process.usage.memory(elapsed))


def _usage(cpu: float, memory: float) -> dict[str, str]:
    return {"cpu": f"{round(cpu * 1e9)}n", "memory": write(Fraction(int(memory / 1024) * 1024), "binary")}


def _metrics(kind: str, obj: Obj, now: datetime) -> Obj:
    meta = obj["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if key in meta}
    head = {"kind": kind, "apiVersion": API_VERSION, "metadata": {**kept, "creationTimestamp": stamp(now)}}
    return {**head, "timestamp": stamp(now), "window": f"{WINDOW_S}s"}


def _told(resource: str, found: list[Obj], name: list[str]) -> Obj | None:
    """Return a list, or its one object of a name. Raises 404."""
    kind = KINDS[resource]
    if not name:
        items = [{key: value for key, value in obj.items() if key not in ("kind", "apiVersion")} for obj in found]
        return {"kind": f"{kind.kind}List", "apiVersion": API_VERSION, "metadata": {}, "items": items}
    if len(name) > 1:
        return None
    for obj in found:
        if obj["metadata"]["name"] == name[0]:
            return obj
    raise not_found(kind, name[0])


def _resources() -> Obj:
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": [*_entries()]}


def _entries() -> Iterator[Obj]:
    for kind in KINDS.values():
        entry = {"name": kind.plural, "singularName": "", "namespaced": kind.namespaced, "kind": kind.kind}
        yield {**entry, "verbs": ["get", "list"]}
