"""A real HTTP server that answers as Prometheus does, or as a test has it fail; it counts what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

Answer = tuple[int, dict[str, str], bytes]


def sample(value: float | str, **labels: str) -> dict[str, Any]:
    """Return one series of an instant vector."""
    return {"metric": labels, "value": [1795422377.0, str(value)]}


def gpu(name: str, value: float | str, gpu: str = "0", node: str = "n1", **labels: str) -> dict[str, Any]:
    """Return one series of dcgm-exporter."""
    return sample(value, __name__=f"DCGM_FI_DEV_{name}", Hostname=node, gpu=gpu, **labels)


def vector(*series: Any) -> Answer:
    """Return an answer of some series."""
    document = {"status": "success", "data": {"resultType": "vector", "result": list(series)}}
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


class PrometheusServer:
    """``answer`` is what the next queries get: a function of the query."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.queries: list[str] = []
        self.answer: Callable[[str], Answer] = lambda query: vector()

    def always(self, answer: Answer) -> None:
        """Answer every query alike."""
        self.answer = lambda query: answer

    def tells(self, gpus: list[Any], pods: list[Any]) -> None:
        """Answer each of the two groups of metrics."""
        self.answer = lambda query: vector(*(gpus if "DCGM" in query else pods))


@contextmanager
def running() -> Iterator[PrometheusServer]:
    """Serve on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query).get("query", [""])[0]
            found.queries.append(query)
            status, headers, body = found.answer(query)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            """Say nothing: clients that give up are part of some tests."""

    server = Server(("127.0.0.1", 0), Handler)
    found = PrometheusServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def prometheus() -> Iterator[PrometheusServer]:
    """A Prometheus that a test controls."""
    with running() as server:
        yield server
