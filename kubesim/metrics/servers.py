"""The servers of monitoring: exporters' pages, and Prometheus itself."""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import datetime
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim.clock import Clock
from kubesim.gpu.board import Board
from kubesim.kubelet.host import Node
from kubesim.metrics import dcgm
from kubesim.metrics import node_exporter as nodes
from kubesim.metrics.exposition import CONTENT_TYPE, render
from kubesim.metrics.kube_state import KubeState
from kubesim.metrics.monitor import Monitor
from kubesim.metrics.scrape import Exporter
from kubesim.network.fabric import HttpServer, Request, Response

API = "/api/v1/"
_TEXT = {"Content-Type": CONTENT_TYPE}
LANDING = b'<!DOCTYPE html>\n<title>Exporter</title>\n<p><a href="/metrics">Metrics</a>\n'
"""What an exporter shows at its root."""


class Exporting(Protocol):
    """A server whose page can also be asked for its series at any moment."""

    @property
    def exporter(self) -> Exporter:
        """What it exposes, as functions of time."""


class Page(HttpServer):
    """An exporter: ``/metrics`` shows what ``exporter`` has now."""

    def __init__(self, exporter: Exporter, page: Callable[[], str]) -> None:
        self.exporter = exporter
        self._page = page

    async def respond(self, request: Request) -> Response:
        """Answer ``/metrics`` and the health checks."""
        if request.path == "/metrics":
            return Response(200, self._page().encode(), _TEXT)
        if request.path == "/":
            return Response(200, LANDING, {"Content-Type": "text/html; charset=UTF-8"})
        if request.path in ("/health", "/healthz", "/livez", "/readyz"):
            return Response(200, b"OK")
        return Response(404, b"404 page not found\n")


def dcgm_exporter(board: Callable[[], Board], now: Callable[[], datetime]) -> Page:
    """Return the dcgm-exporter of a node."""

    def page() -> str:
        return render(dcgm.exposed(board(), now()))

    return Page(lambda name, start, end: dcgm.series(board(), name, start, end), page)


def node_exporter(node: Node, now: Callable[[], datetime]) -> Page:
    """Return the node_exporter of a node."""
    return Page(
        lambda name, start, end: nodes.series(node, name, end),
        lambda: render(nodes.exposed(node, now().timestamp())),
    )


def state_exporter(state: KubeState, kinds: Callable[[], Container[str]]) -> Page:
    """Return the cluster's kube-state-metrics, which sees some kinds of objects."""
    return Page(
        lambda name, start, end: state.series(name, start, end, kinds()), lambda: render(state.exposed(kinds()))
    )


class PrometheusServer(HttpServer):
    """Prometheus: its API, its health checks, and how to load its configuration again."""

    def __init__(self, monitor: Monitor, clock: Clock, reload: Callable[[], None]) -> None:
        self._monitor = monitor
        self._clock = clock
        self._reload = reload

    async def respond(self, request: Request) -> Response:
        """Answer a request; parameters come in the query or, with POST, in a form."""
        path = request.path
        if path.startswith(API):
            return self._api(path.removeprefix(API), request)
        if path == "/-/reload" and request.method in ("POST", "PUT"):
            self._reload()
            problem = self._monitor.problem
            return Response(500, f"failed to reload config: {problem}\n".encode()) if problem else Response()
        if path in ("/-/healthy", "/-/ready"):
            state = "Healthy" if path == "/-/healthy" else "Ready"
            return Response(200, f"Prometheus Server is {state}.\n".encode())
        return Response(404, b"404 page not found\n")

    def _api(self, path: str, request: Request) -> Response:
        if request.method not in ("GET", "POST", "HEAD"):
            return Response(405, b"Method Not Allowed\n")
        form = request.body.decode("utf-8", "replace") if request.method == "POST" else ""
        parameters = parse_qs(urlsplit(request.target).query, keep_blank_values=True)
        for name, values in parse_qs(form, keep_blank_values=True, max_num_fields=1000).items():
            parameters.setdefault(name, []).extend(values)
        status, document = self._monitor.server.answer(path.rstrip("/"), parameters, self._clock.now().timestamp())
        return Response(status, orjson.dumps(document), {"Content-Type": "application/json"})
