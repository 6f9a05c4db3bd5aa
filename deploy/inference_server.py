#!/usr/bin/env python3
"""A small inference server: encodes texts on a GPU, or on processors where it has none, and counts how long it takes.

So that its utilisation shows without clients, it makes requests of its own: ``REQUESTS_PER_SECOND`` of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT, WIDTH, LAYERS, TOKENS = 8000, 768, 12, 256
BOUNDS = (0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, float("inf"))
MODEL = {"model": "sentence-encoder", "dimensions": WIDTH}
MAX_WAITING = 200
NAME = "inference_request_duration_seconds"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class Durations:
    """A histogram of seconds, as Prometheus' clients keep it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * len(BOUNDS)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        with self._lock:
            self._sum += seconds
            for at, bound in enumerate(BOUNDS):
                self._counts[at] += seconds <= bound

    def page(self) -> str:
        """Return the metrics in Prometheus' text format."""
        with self._lock:
            counts, total = [*self._counts], self._sum
        lines = [f"# HELP {NAME} Time from a request to its answer.", f"# TYPE {NAME} histogram"]
        names = ["+Inf" if bound == float("inf") else f"{bound:g}" for bound in BOUNDS]
        lines += [f'{NAME}_bucket{{le="{name}"}} {count}' for name, count in zip(names, counts, strict=True)]
        lines += [f"{NAME}_sum {total}", f"{NAME}_count {counts[-1]}"]
        lines += [
            "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.",
            "# TYPE process_cpu_seconds_total counter",
            f"process_cpu_seconds_total {round(time.process_time(), 2)}",
        ]
        return "".join(f"{line}\n" for line in lines)


class Encoder:
    """The model. Requests take turns, as those of one stream on a GPU do."""

    def __init__(self) -> None:
        self.durations = Durations()
        self._turn = threading.Lock()
        self._torch = _torch()
        self._layers: Any = None
        if self._torch is not None:
            device = "cuda" if self._torch.cuda.is_available() else "cpu"
            self._layers = [self._torch.randn(WIDTH, WIDTH, device=device) / WIDTH**0.5 for _ in range(LAYERS)]

    def encode(self, arrived: float) -> None:
        """Answer a request that has come at a moment of ``time.perf_counter``."""
        with self._turn:
            if self._layers is None:
                sum(value * value for value in range(TOKENS * LAYERS))
            else:
                tokens = self._torch.randn(TOKENS, WIDTH, device=self._layers[0].device)
                for layer in self._layers:
                    tokens = self._torch.relu(tokens @ layer)
                tokens.sum().item()  # waits for the GPU
        self.durations.observe(time.perf_counter() - arrived)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


def handler(encoder: Encoder) -> type[BaseHTTPRequestHandler]:
    """Return what answers HTTP requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/health": {"status": "ok"}, "/v1/model": MODEL}.get(self.path)
            if self.path == "/metrics":
                self._answer(200, EXPOSITION, encoder.durations.page())
            elif found is not None:
                self._answer(200, "application/json", json.dumps(found))
            else:
                self._answer(404, "application/json", json.dumps({"error": "not found"}))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            encoder.encode(time.perf_counter())
            self._answer(200, "application/json", json.dumps(MODEL))

        def log_message(self, *args: Any) -> None:
            """Keep the log for what an operator needs."""

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def make_requests(encoder: Encoder, per_second: float, stopped: threading.Event) -> None:
    """Send requests at random moments until stopped."""
    while not stopped.wait(random.expovariate(per_second)):
        if threading.active_count() > MAX_WAITING:
            continue
        threading.Thread(target=encoder.encode, args=(time.perf_counter(),), daemon=True).start()


def main() -> int:
    """Serve until told to stop."""
    print("loading the model")
    encoder, stopped = Encoder(), threading.Event()
    port = int(os.environ.get("PORT", PORT))  # noqa: TID251 - a program of its own image
    server = ThreadingHTTPServer(("", port), handler(encoder))
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rate = float(os.environ.get("REQUESTS_PER_SECOND", "8"))  # noqa: TID251 - a program of its own image
    print(f"serving on port {server.server_port}; REQUESTS_PER_SECOND says how many it makes itself", flush=True)
    if rate > 0:
        make_requests(encoder, rate, stopped)
    stopped.wait()
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
