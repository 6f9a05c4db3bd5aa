"""What a kubelet answers over HTTP on its node: health, its pods, their logs. The node proxy leads here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import configuration
from kubesim.kubelet.footprint import Process
from kubesim.kubelet.host import Node
from kubesim.network.fabric import HttpServer, Request, Response

PORT, HEALTH_PORT = 10250, 10248
JSON = {"Content-Type": "application/json"}
METRICS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


def port_of(node: Obj) -> int:
    """Return the port on which a node's kubelet listens, as its status tells."""
    endpoint = (node.get("status", {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    return int(endpoint.get("Port") or PORT)


Logs = Callable[[str, str, str, int | None, bool], bytes]
"""(namespace, pod, container, lines from the end, the start before) -> the log; raises ``ApiError``."""
Running = Callable[[], Iterable[Process]]


class KubeletEndpoint(HttpServer):
    """The server of one node's kubelet."""

    def __init__(
        self, node: Node, pods: Callable[[], Iterable[Obj]], logs: Logs, clock: Clock, running: Running
    ) -> None:
        self.watch, self.node, self.ledger, self.capacity = node.watch, node.name, node.ledger, node.capacity
        self.started = clock.now().timestamp()
        self.processes = running
        self._clock, self._pods, self._logs = clock, pods, logs

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        match [part for part in request.path.split("/") if part]:
            case ["healthz", *_]:
                return Response(200, b"ok")
            case ["pods"] | ["runningpods"]:
                listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [*self._pods()]}
                return Response(200, orjson.dumps(listed), JSON)
            case ["metrics", "cadvisor"]:
                cadvisor = import_module("kubesim.metrics.cadvisor")  # read when first wanted: nodes start sooner
                return Response(200, cadvisor.page(self, self._clock.now().timestamp()).encode(), METRICS)
            case ["metrics"] | ["metrics", "resource"] as parts:
                return self._measured(parts)
            case ["configz"]:
                config = {**configuration.DEFAULTS, **self.watch.config}
                return Response(200, orjson.dumps({"kubeletconfig": config}), JSON)
            case ["containerLogs", namespace, pod, container]:
                return self._log(request, namespace, pod, container)
        return Response(404, b"404 page not found\n")

    def _measured(self, parts: list[str]) -> Response:
        pages = import_module("kubesim.metrics.kubelet_pages")
        now = self._clock.now().timestamp()
        page = pages.resource_page if len(parts) == 2 else pages.own_page
        return Response(200, page(self, now), METRICS)

    def _log(self, request: Request, namespace: str, pod: str, container: str) -> Response:
        query = parse_qs(urlsplit(request.target).query)
        tail = query.get("tailLines", [""])[0]
        previous = query.get("previous", ["false"])[0] == "true"
        try:
            text = self._logs(namespace, pod, container, int(tail) if tail.isdecimal() else None, previous)
        except ApiError as error:
            return Response(error.code, f"{error.message}\n".encode())
        return Response(200, text)
