"""metrics-server: what nodes and pods use now, as the group metrics.k8s.io.

The kubelets of other processes are asked for /stats/summary, as a metrics-server of old asked them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from fractions import Fraction
from urllib.parse import parse_qs, urlsplit

import orjson
from aiohttp import ClientError

from kubesim.api.quantity import write
from kubesim.api.selectors import parse_labels
from kubesim.api.status import not_found
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet.endpoint import KubeletEndpoint, port_of
from kubesim.metrics.kubelet_pages import PodUse, measured
from kubesim.network.fabric import Fabric, HttpServer, Request, Response
from kubesim.outside import Call, DialError, Outside, kubelet_of, whole
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
KUBELET_SECONDS = 10.0
MAX_SUMMARY = 16 * 1024 * 1024
Usage = tuple[float, float]
"""Cores and bytes."""
PodUsage = tuple[Obj, list[tuple[str, Usage]]]
"""A pod, and what its containers use by name."""


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
        return [
            _metrics("NodeMetrics", node, now) | {"usage": _usage(*usage)}
            async for node, usage, _ in self._measured(nodes, now)
            if usage is not None
        ]

    async def _pods(self, namespace: str, selector: str) -> list[Obj]:
        now, chosen = self._clock.now(), parse_labels(selector)
        nodes = (await self._client.list("nodes")).items
        found = [each async for _, _, pods in self._measured(nodes, now, namespace) for each in pods]
        return [
            _metrics("PodMetrics", pod, now)
            | {"containers": [{"name": name, "usage": _usage(*usage)} for name, usage in containers]}
            for pod, containers in found
            if namespace in ("", pod["metadata"]["namespace"]) and chosen.matches(pod["metadata"].get("labels") or {})
        ]

    async def _measured(
        self, nodes: list[Obj], now: datetime, namespace: str | None = None
    ) -> AsyncIterator[tuple[Obj, Usage | None, list[PodUsage]]]:
        """Yield what nodes and their pods use: of those of this process, and of those that answer elsewhere.

        Of these pods are told where a namespace is asked for, each node of its own only.
        """
        kubelets = [self._kubelet(node) for node in nodes]
        others = [node for node, kubelet in zip(nodes, kubelets, strict=True) if kubelet is None]
        abroad = await summaries(self._fabric.outside, others)
        asked = abroad and namespace is not None
        everyone = (await self._client.list("pods", namespace or "")).items if asked else []
        known = {(pod["spec"].get("nodeName"), pod["metadata"]["namespace"], _name(pod)): pod for pod in everyone}
        for node, kubelet in zip(nodes, kubelets, strict=True):
            if kubelet is not None:
                node_use, pods = measured(kubelet, now.timestamp())
                yield node, (node_use.cores, node_use.memory), [_used(found) for found in pods]
            elif told := abroad.get(_name(node)):
                theirs = [(known.get((_name(node), place, name)), usage) for place, name, usage in pods_of(told)]
                yield node, used(told.get("node")), [(pod, usage) for pod, usage in theirs if pod and usage]

    def _kubelet(self, node: Obj) -> KubeletEndpoint | None:
        """Return the kubelet of a node of this process; None where none answers."""
        addresses = {item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()}
        try:
            found = self._fabric.find(addresses.get("InternalIP", ""), port_of(node))
        except NetworkError:
            return None
        return found if isinstance(found, KubeletEndpoint) else None


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _used(found: PodUse) -> PodUsage:
    return found.pod, [(process.container, (use.cores, use.memory)) for process, use in found.containers]


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
    served = [{"name": kind.plural, "namespaced": kind.namespaced, "kind": kind.kind} for kind in KINDS.values()]
    resources = [{"singularName": "", "verbs": ["get", "list"], **entry} for entry in served]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": resources}


# --- what the kubelets of other processes tell of their nodes -------------------------------------------------------


async def summaries(outside: Outside, nodes: Sequence[Obj]) -> dict[str, Obj]:
    """Return the summaries of those nodes whose kubelets answer, by name."""
    if not outside.there:
        return {}
    told = await asyncio.gather(*(_summary(outside, node) for node in nodes))
    return {node["metadata"]["name"]: found for node, found in zip(nodes, told, strict=True) if found}


async def _summary(outside: Outside, node: Obj) -> Obj:
    """Return what a kubelet tells; nothing where there is none."""
    try:
        async with (
            asyncio.timeout(KUBELET_SECONDS),
            outside.asked(kubelet_of(node), Call("GET", "/stats/summary")) as answer,
        ):
            body = await whole(answer, MAX_SUMMARY) if answer.status == 200 else b""
        found = orjson.loads(body)
    except (ApiError, ClientError, DialError, TimeoutError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def used(stats: object) -> Usage | None:
    """Return what a part of a summary says of use; None where it says nothing."""
    cpu, memory = _figure(stats, "cpu", "usageNanoCores"), _figure(stats, "memory", "workingSetBytes")
    return (cpu / 1e9, memory) if cpu is not None and memory is not None else None


def pods_of(summary: Obj) -> Iterator[tuple[str, str, list[tuple[str, Usage]]]]:
    """Yield namespace and name of every pod of a summary, with what its containers use."""
    for found in _listed(summary, "pods"):
        told = [(str(entry.get("name")), used(entry)) for entry in _listed(found, "containers")]
        reference = found.get("podRef")
        if isinstance(reference, dict):
            known = [(name, usage) for name, usage in told if usage is not None]
            yield str(reference.get("namespace")), str(reference.get("name")), known


def _listed(found: Obj, name: str) -> list[Obj]:
    listed = found.get(name)
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _figure(stats: object, part: str, name: str) -> float | None:
    found = stats.get(part) if isinstance(stats, dict) else None
    value = found.get(name) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) else None
