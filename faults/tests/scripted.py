"""An HTTP server that plays a script of Kubernetes answers: what no well-behaved cluster would ever send."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from faults.kube.client import Kube
from faults.kube.config import Access

DISCOVERY = {
    "resources": [
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list", "watch"]},
        {"name": "pods/log", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
    ]
}


class ScriptedServer:
    """Calls ``answer(method, path, query)`` for each request; it returns (status, headers, body chunks).

    A body of None breaks the connection. Pauses between tries are noted in ``pauses`` and not waited for.
    """

    def __init__(self, answer: Callable, *, discovery: bool = True) -> None:
        self.pauses: list[float] = []
        self.requests: list[tuple[str, str, dict]] = []
        self.bodies: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                outer.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                outer.requests.append((self.command, parts.path, query))
                if discovery and parts.path == "/api/v1":
                    status, headers, chunks = 200, {}, [json.dumps(DISCOVERY).encode()]
                else:
                    status, headers, chunks = answer(self.command, parts.path, query)
                if chunks is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for chunk in chunks:
                    self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        self.kube = Kube(Access(self.url, "", token="t"), timeout=(30.0, 30.0), pause=self.pauses.append)
        return self

    def __exit__(self, *exc):
        self.kube.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def status(code: int, reason: str, message: str) -> bytes:
    """Return a Status as the API sends it."""
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()
