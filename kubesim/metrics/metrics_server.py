"""metrics-server: what nodes and pods use now, as the group metrics.k8s.io."""

from __future__ import annotations

from collections.abc import Iterator
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
from kubesim.kubelet.endpoint import KubeletEndpoint, port_of
from kubesim.metrics.kubelet_pages import PodUse, Used, measured
from kubesim.network.fabric import Fabric, HttpServer, Request, Response
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
        return [
            _metrics("NodeMetrics", node, now) | {"usage": _usage(used)}
            for node, used, _ in self._measured(nodes, now)
        ]

    async def _pods(self, namespace: str, selector: str) -> list[Obj]:
        now, chosen = self._clock.now(), parse_labels(selector)
        nodes = (await self._client.list("nodes")).items
        found = [each for _, _, pods in self._measured(nodes, now) for each in pods]
        return [
            _metrics("PodMetrics", each.pod, now)
            | {
                "containers": [
                    {"name": process.container, "usage": _usage(used)} for process, used in each.containers
                ]
            }
            for each in found
            if namespace in ("", each.pod["metadata"]["namespace"])
            and chosen.matches(each.pod["metadata"].get("labels") or {})
        ]

    def _measured(self, nodes: list[Obj], now: datetime) -> Iterator[tuple[Obj, Used, list[PodUse]]]:
        """Yield what the nodes of this process and their pods use."""
        for node in nodes:
            if kubelet := self._kubelet(node):
                yield node, *measured(kubelet, now.timestamp())

    def _kubelet(self, node: Obj) -> KubeletEndpoint | None:
        """Return the kubelet of a node of this process; None where none answers."""
        addresses = {item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()}
        try:
            found = self._fabric.find(addresses.get("InternalIP", ""), port_of(node))
        except NetworkError:
            return None
        return found if isinstance(found, KubeletEndpoint) else None


def _usage(used: Used) -> dict[str, str]:
    memory = write(Fraction(int(used.memory / 1024) * 1024), "binary")
    return {"cpu": f"{round(used.cores * 1e9)}n", "memory": memory}


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
