"""A real Prometheus that scrapes what our exporters show has the same series as ours, which scrapes nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kubesim.metrics.exposition import CONTENT_TYPE
from kubesim.network.fabric import Request
from kubesim.tests.installed import install
from kubesim.tests.prometheus import Prometheus, installed
from kubesim.tests.test_addons import ask
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import World, pod, world

JOBS = ("node-exporter", "cadvisor", "kube-state-metrics")
OURS = frozenset(("instance", "job", "namespace", "node", "pod"))
"""Labels that scraping adds, or exporters themselves."""
OF_SCRAPING = frozenset(("up", "scrape_samples_scraped", "scrape_duration_seconds", "scrape_series_added",
                         "scrape_samples_post_metric_relabeling"))  # fmt: skip


@pytest.fixture
async def watched() -> AsyncIterator[World]:
    """A cluster of one node with monitoring, in which somebody trains."""
    async with world(count=1) as w:
        await install(w, "gpu-operator", "monitoring", seconds=0)
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(400)
        yield w


class Served:
    """A page on loopback, the same at every moment."""

    def __init__(self, body: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def page_of(w: World, job: str) -> bytes:
    """Return what a job's exporter shows."""
    (node,) = await w.items("nodes", "")
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    pods = {item["metadata"]["labels"].get("app"): item for item in await w.items("pods", "monitoring")}
    state = pods["kube-state-metrics"]["status"]["podIP"]
    where = {
        "node-exporter": (address, 9100, "/metrics"),
        "cadvisor": (address, 10250, "/metrics/cadvisor"),
        "kube-state-metrics": (state, 8080, "/metrics"),
    }
    host, port, path = where[job]
    return (await w.kubelets.fabric.find(host, port).respond(Request("GET", path))).body


@pytest.mark.skipif(not installed(), reason="prometheus was not found. Run: sudo apt install prometheus")
async def test_a_real_prometheus_that_scrapes_our_exporters_has_the_same_series(watched, tmp_path):
    served = {job: Served(await page_of(watched, job)) for job in JOBS}
    jobs = [
        {"job_name": job, "scrape_interval": "1s", "scrape_timeout": "1s", "honor_labels": True,
         "static_configs": [{"targets": [page.address]}]}
        for job, page in served.items()
    ]  # fmt: skip
    real = Prometheus(tmp_path, [], config=json.dumps({"scrape_configs": jobs}))
    try:
        while not real.ready() or len(real.get("query", query="up == 1")["data"]["result"]) < len(JOBS):
            assert real.running()
            await asyncio.sleep(0.05)
        theirs = {job: real.get("query", query=f'{{job="{job}"}}')["data"]["result"] for job in JOBS}
        theirs["kube-state-metrics"] = real.get("query", query='{__name__=~"kube_.+"}')["data"]["result"]
    finally:
        real.stop()
        for page in served.values():
            page.close()
    for job, result in theirs.items():
        expected = counted((item["metric"], float(item["value"][1])) for item in result)
        found = counted(
            await ask(watched, f'{{job="{job}"}}' if not job.startswith("kube") else '{__name__=~"kube_.+"}')
        )
        assert {key: len(values) for key, values in found.items()} == {key: len(v) for key, v in expected.items()}
        drifting = {
            dict(key)["__name__"]
            for key, values in found.items()
            if sorted(values) != pytest.approx(sorted(expected[key]), rel=0.2, abs=5)
        }
        assert drifting <= {"node_load1", "node_load5", "node_load15"}


def counted(series: Iterable[tuple[dict[str, str], float]]) -> dict[tuple[tuple[str, str], ...], list[float]]:
    """Return the values of series by what exporters say of them."""
    found: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for metric, value in series:
        if metric["__name__"] not in OF_SCRAPING:
            key = tuple(sorted((name, text) for name, text in metric.items() if name not in OURS))
            found.setdefault(key, []).append(value)
    return found
