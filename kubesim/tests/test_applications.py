"""Metrics of programs that their image describes, as a Prometheus scrapes them: slower where something is short."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import orjson
import pytest

from kubesim.gpu.nodes import SHARING_LABEL, shared_clients
from kubesim.kubelet.gpus import of_node
from kubesim.kubelet.images import pull
from kubesim.kubelet.servers import Course
from kubesim.kubelet.usage import usage
from kubesim.metrics.applications import Application
from kubesim.network.fabric import Request
from kubesim.pools import Pool
from kubesim.tests.installed import install
from kubesim.tests.world import container, pod, world

IMAGE = "ghcr.io/platform-tools/inference-server:1.2"
SLOW = "histogram_quantile(0.95, sum by (pod, le) (rate(inference_request_duration_seconds_bucket[1m])))"


PORTS = [{"name": "app-metrics", "containerPort": 8000}]
TRAINER = "nvcr.io/nvidia/pytorch:25.01-py3"
ONE = {"limits": {"nvidia.com/gpu": "1"}}
START = datetime(2026, 1, 1, tzinfo=UTC)


def server(name, env=(), **limits):
    resources = {"limits": {"nvidia.com/gpu": "1", **limits}}
    spec = container(IMAGE, ports=PORTS, resources=resources, env=[{"name": k, "value": v} for k, v in env])
    return pod(name, spec)


@pytest.fixture
async def observed():
    async with world(count=1) as w:
        await install(w, "monitoring")
        yield w


async def ask(w, query):
    (found,) = [p for p in await w.items("pods", "monitoring") if p["metadata"]["labels"].get("app") == "prometheus"]
    prometheus = w.kubelets.fabric.find(found["status"]["podIP"], 9090)
    answer = orjson.loads((await prometheus.respond(Request("GET", f"/api/v1/query?query={quote(query)}"))).body)
    return {item["metric"].get("pod"): float(item["value"][1]) for item in answer["data"]["result"]}


async def test_requests_take_longer_where_a_cpu_limit_is_too_low_and_come_as_often_as_the_container_says(observed):
    await observed.create("pods", server("well"))
    await observed.create("pods", server("starved", env=[("REQUESTS_PER_SECOND", "40")], cpu="500m"))
    await observed.tick(240)
    slow = await ask(observed, SLOW)
    assert slow["well"] <= 0.15 < 0.3 < slow["starved"]
    rates = await ask(observed, "rate(inference_request_duration_seconds_count[1m])")
    assert rates == pytest.approx({"well": 8, "starved": 40}, rel=0.05)


async def test_requests_take_twice_as_long_while_a_training_takes_turns_on_the_same_gpu():
    async with world(count=1, gpus=1) as w:
        await install(w, "monitoring")
        gpus = w.kubelets.gpus(w.node_names[0])
        gpus.board.replicas = 2
        gpus.board.changed()
        await w.create("pods", server("search"))
        await w.tick(120)
        assert (await ask(w, SLOW))["search"] <= 0.15
        await w.create("pods", pod("train", container(TRAINER, "python", "train.py", resources=ONE)))
        await w.tick(240)
        assert len(gpus.board.devices[0].tasks) == 2
        assert (await ask(w, SLOW))["search"] > 0.25
        await w.client.delete("pods", "train", "default")
        await w.tick(120)
        assert (await ask(w, SLOW))["search"] <= 0.15


async def test_a_program_without_a_gpu_answers_on_the_processor_and_far_more_slowly(observed):
    await observed.create("pods", pod("alone", container(IMAGE, ports=PORTS)))
    await observed.tick(240)
    assert (await ask(observed, SLOW))["alone"] > 1


async def test_a_page_of_metrics_says_what_prometheus_has(observed):
    await observed.create("pods", server("well"))
    await observed.tick(120)
    found = observed.kubelets.fabric.find((await observed.pod("well"))["status"]["podIP"], 8000)
    text = (await found.respond(Request("GET", "/metrics"))).body.decode()
    assert "# TYPE inference_request_duration_seconds histogram\n" in text
    count = float(text.split('_bucket{le="+Inf"} ')[1].split()[0])
    assert 500 < count == float(text.split("_seconds_count ")[1].split()[0]) < 960
    assert 80 < float(text.split("\nprocess_cpu_seconds_total ")[1]) < 190


def test_a_node_whose_label_shares_gpus_offers_each_of_them_as_often():
    (made,) = Pool(1, 2, "L4", labels={SHARING_LABEL: "3"}).nodes(0, START)
    assert made["status"]["allocatable"]["nvidia.com/gpu"] == made["status"]["capacity"]["nvidia.com/gpu"] == "6"
    found = of_node(
        {**made, "metadata": {**made["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}}
    )
    assert (found.count, found.clients, found.board.resources()) == (2, 3, {"nvidia.com/gpu": 6})
    assert [shared_clients({SHARING_LABEL: text}) for text in ("", "0", "-2", "many", "999")] == [1, 1, 1, 1, 48]


def test_the_image_that_is_built_has_the_pages_and_metrics_that_practice_clusters_show():
    """Its program runs here as it does where there is no PyTorch."""
    root = Path(__file__).parents[2]
    environment = {"PORT": "0", "REQUESTS_PER_SECOND": "200"}
    program = [sys.executable, root / "deploy/inference_server.py"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "loading the model\n"
        line = process.stdout.readline().strip()
        port = re.search("on port ([0-9]+);", line)[1]
        known = pull(IMAGE, "amd64").own
        assert line.replace(port, "8000") == known["log"][1]["text"]
        for path in ("/health", "/v1/model", "/other"):
            page = known["pages"].get(path) or known["pages"][""]
            assert fetched(port, path) == (page.get("status", 200), page["body"])
        text = fetched(port, "/metrics")[1]
        course = Course(0.0, usage("", ""), {}, "", ())
        assert named(text) == named(Application(known["metrics"], course).page(60.0))
        process.terminate()
        assert process.wait(10) == 0


def fetched(port, path):
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def named(page):
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in page.splitlines()]
