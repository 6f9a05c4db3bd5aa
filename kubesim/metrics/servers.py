"""The servers of monitoring: exporters' pages, and Prometheus itself."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import orjson

from kubesim.clock import Clock
from kubesim.gpu.board import Board
from kubesim.kubelet.host import Node
from kubesim.metrics import dcgm, own, pages
from kubesim.metrics import node_exporter as nodes
from kubesim.metrics.api import BUILD
from kubesim.metrics.exposition import CONTENT_TYPE, render
from kubesim.metrics.kube_state import KubeState
from kubesim.metrics.monitor import Monitor
from kubesim.metrics.scrape import Exporter, Function
from kubesim.network.fabric import HttpServer, Request, Response

API = "/api/v1/"
_TEXT = {"Content-Type": CONTENT_TYPE}
LANDING = b'<!DOCTYPE html>\n<title>Exporter</title>\n<p><a href="/metrics">Metrics</a>\n'
"""What an exporter shows at its root."""


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
    found = nodes.NodeExporter(node, now().timestamp())
    return Page(
        lambda name, start, end: found.series(name, now().timestamp()),
        lambda: render(found.exposed(now().timestamp())),
    )


def state_exporter(state: KubeState, kinds: Callable[[], Container[str]]) -> Page:
    """Return the cluster's kube-state-metrics, which sees some kinds of objects."""
    return Page(
        lambda name, start, end: state.series(name, start, end, kinds()), lambda: render(state.exposed(kinds()))
    )


RELOAD = "/-/reload"
OLD = {"/": "query", "/graph": "query", "/classic/graph": "query", "/tsdb-status": "status", "/runtime": "status"}
"""Addresses that lead to another page."""
_HTML, _PLAIN = {"Content-Type": "text/html; charset=utf-8"}, {"Content-Type": "text/plain; charset=utf-8"}
_JSON = {"Content-Type": "application/json"}
_NOT_FOUND = Response(404, b"404 page not found\n", _PLAIN)
_NOT_ALLOWED = Response(405, b"Method Not Allowed\n", _PLAIN)


class PrometheusServer(HttpServer):
    """Prometheus: its API, its pages, its health checks, and how to load its configuration again."""

    def __init__(self, monitor: Monitor, clock: Clock, reload: Callable[[], None]) -> None:
        self._monitor = monitor
        self._clock = clock
        self._reload = reload

    def exporter(self, name: str, start: float, end: float) -> Iterator[Function]:
        """Yield its own series, for one that scrapes it."""
        return own.series(self._monitor.server, name, end)

    async def respond(self, request: Request) -> Response:
        """Answer a request; parameters come in the query or, with POST, in a form."""
        if request.path.startswith(API):
            return self._api(request.path.removeprefix(API), request)
        if request.path == RELOAD:
            return self._load(request.method)
        if request.path in ("/-/healthy", "/-/ready"):
            state = "Healthy" if request.path == "/-/healthy" else "Ready"
            return Response(200, f"Prometheus Server is {state}.\n".encode(), _PLAIN)
        return self._page(request) if request.method in ("GET", "HEAD") else _NOT_ALLOWED

    def _page(self, request: Request) -> Response:
        server, now, query = self._monitor.server, self._clock.now().timestamp(), urlsplit(request.target).query
        if request.path in OLD:
            back = "../" * (request.path.count("/") - 1)
            return Response(302, b"", {"Location": f"{back}{OLD[request.path]}{'?' + query if query else ''}"})
        try:
            parameters = parse_qs(query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError as error:
            return Response(400, f"error parsing form values: {error}\n".encode(), _PLAIN)
        match request.path.removeprefix("/"):
            case "metrics":
                return Response(200, own.page(server, now), _TEXT)
            case "version":
                return Response(200, orjson.dumps(BUILD) + b"\n", _PLAIN)
            case name if name in pages.NAMES:
                return Response(200, pages.page(server, name, parameters, now), _HTML)
        return _NOT_FOUND

    def _load(self, method: str) -> Response:
        if method not in ("POST", "PUT"):
            return Response(405, b"Only POST or PUT requests allowed", _PLAIN)
        if self._monitor.server.flags["web.enable-lifecycle"] != "true":
            return Response(403, b"Lifecycle API is not enabled.", _PLAIN)
        self._reload()
        problem = self._monitor.problem
        return Response(500, f"failed to reload config: {problem}\n".encode(), _PLAIN) if problem else Response()

    def _api(self, path: str, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(204, b"")
        if request.method not in ("GET", "POST"):
            return _NOT_ALLOWED
        form = request.body.decode("utf-8", "replace") if request.method == "POST" else ""
        try:
            parameters = parse_qs(urlsplit(request.target).query, keep_blank_values=True, max_num_fields=MOST_FIELDS)
            for name, values in parse_qs(form, keep_blank_values=True, max_num_fields=MOST_FIELDS).items():
                parameters.setdefault(name, []).extend(values)
        except ValueError as error:
            refused = {"status": "error", "errorType": "bad_data", "error": f"error parsing form values: {error}"}
            return Response(400, orjson.dumps(refused), _JSON)
        status, document = self._monitor.server.answer(path.rstrip("/"), parameters, self._clock.now().timestamp())
        return _NOT_FOUND if status == 404 else Response(status, orjson.dumps(document), _JSON)


MOST_FIELDS = 1000
"""Parameters of one request."""
