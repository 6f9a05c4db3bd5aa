"""A webhook of the tests' own, on a TLS port of this machine: it keeps what it is asked, and answers as told."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubesim.pki import CertificateAuthority

Obj = dict[str, Any]
Answering = Callable[[Obj], Obj | bytes]


@dataclass
class Hooks:
    """The server: ``answers`` by path, ``seen`` every review by path."""

    url: str
    bundle: str
    answers: dict[str, Answering] = field(default_factory=dict)
    seen: dict[str, list[Obj]] = field(default_factory=dict)

    def client(self, path: str, **more: Any) -> Obj:
        """Return a clientConfig."""
        return {"url": self.url + path, "caBundle": self.bundle, **more}

    def says(self, path: str, answer: Answering) -> str:
        """Let a path answer."""
        self.answers[path] = answer
        self.seen[path] = []
        return path


def response(**said: Any) -> Answering:
    """Return what answers a review with this response."""

    def answer(review: Obj) -> Obj:
        uid = {"uid": review["request"]["uid"]}
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": {**uid, **said}}

    return answer


def patching(*operations: Obj) -> Answering:
    """Return what answers with a patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return response(allowed=True, patch=patch, patchType="JSONPatch")


def late(seconds: float) -> Answering:
    """Return what allows everything, too late."""

    def answer(review: Obj) -> Obj | bytes:
        time.sleep(seconds)
        return response(allowed=True)(review)

    return answer


@contextmanager
def serving(folder: Path) -> Iterator[Hooks]:
    """Run a server until the block ends."""
    now = datetime.now(UTC)
    authority = CertificateAuthority.create(now)
    context = authority.issue_server(["127.0.0.1"], now).context(folder)
    hooks = Hooks("", base64.b64encode(authority.pem).decode())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            hooks.seen[path].append(review)
            found = hooks.answers[path](review)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(500 if path.startswith("/broken") else 200)
            self.send_header("Content-Type", "text/plain" if isinstance(found, bytes) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    hooks.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hooks
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
