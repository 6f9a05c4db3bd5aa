"""The Prometheus HTTP API over a node's GPUs: what is scraped, what went stale, targets, rules and errors."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kubesim.gpu.board import GPU, Board
from kubesim.gpu.devices import Task
from kubesim.gpu.products import loads, products
from kubesim.metrics import dcgm, rules
from kubesim.metrics.api import Prometheus
from kubesim.metrics.exposition import Exposed, Family, render
from kubesim.metrics.scrape import Target
from kubesim.tests.prometheus import Prometheus as Real
from kubesim.tests.prometheus import installed

BOOT = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)
START = BOOT.timestamp()
NOW = START + 900
OWNER = "ml/train-0/main"
ALERTS = """
groups:
- name: gpus
  rules:
  - alert: GpuIdle
    expr: DCGM_FI_DEV_GPU_UTIL < 5
    for: 5m
    labels: {severity: warning}
    annotations: {summary: "GPU {{ $labels.gpu }} of {{ $labels.Hostname }} is at {{ $value }} %"}
  - alert: XidError
    expr: DCGM_FI_DEV_XID_ERRORS > 0
  - record: node:gpu_util:avg
    expr: avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)
"""


@pytest.fixture
def board() -> Board:
    board = Board("node-a", products()["H100"], 4, BOOT)
    started = BOOT + timedelta(seconds=60)
    board.allocate(OWNER, GPU, 2, started)
    board.start(Task(4242, "python", OWNER, loads()["training"], started))
    return board


@pytest.fixture
def target(board) -> Target:
    labels = {"job": "dcgm-exporter", "instance": "10.0.0.1:9400"}
    return Target(labels, lambda name, start, end: dcgm.series(board, name, start, end), START, honor_labels=True)


@pytest.fixture
def server(target) -> Prometheus:
    server = Prometheus(rules=rules.Rules(rules.load(ALERTS, "/etc/prometheus/rules.yml")))
    server.database.targets.append(target)
    return server


def ask(server, path, now=NOW, **parameters):
    named = {name.replace("match", "match[]"): [value] for name, value in parameters.items()}
    status, document = server.answer(path, named, now)
    assert status == 200, document
    return document["data"]


def at(seconds: float) -> datetime:
    return BOOT + timedelta(seconds=seconds)


def test_a_gpu_is_known_by_the_container_that_has_it(server):
    found = ask(server, "query", query='DCGM_FI_DEV_GPU_UTIL{pod="train-0"}')["result"]
    assert [item["metric"]["gpu"] for item in found] == ["0", "1"]
    assert found[0]["metric"]["namespace"] == "ml"
    assert 90 <= float(found[0]["value"][1]) <= 100
    idle = ask(server, "query", query='DCGM_FI_DEV_GPU_UTIL{pod=""}')["result"]
    assert [item["value"][1] for item in idle] == ["0", "0"]


def test_labels_come_in_their_order(server):
    for path, parameters in (
        ("query", {"query": "DCGM_FI_DEV_FB_USED"}),
        ("query", {"query": "DCGM_FI_DEV_FB_USED[1m]"}),
    ):
        for item in ask(server, path, **parameters)["result"]:
            assert [*item["metric"]] == sorted(item["metric"])
    assert all([*labels] == sorted(labels) for labels in ask(server, "series", match="DCGM_FI_DEV_FB_USED"))


def test_the_exporters_labels_stand_aside_where_they_are_not_honoured(server, target):
    target.labels["namespace"] = "gpu-operator"
    target.honor_labels = False
    found = ask(server, "query", query='DCGM_FI_DEV_GPU_UTIL{gpu="0"}')["result"][0]["metric"]
    assert (found["namespace"], found["exported_namespace"]) == ("gpu-operator", "ml")


def test_a_series_ends_when_the_pod_gives_the_gpu_back(server, board):
    board.release(OWNER, at(600))
    owned = 'DCGM_FI_DEV_FB_USED{pod="train-0"}'
    assert len(ask(server, "query", query=owned, time=str(START + 590))["result"]) == 2
    assert ask(server, "query", query=owned)["result"] == []
    assert ask(server, "query", query="sum(DCGM_FI_DEV_FB_USED)")["result"][0]["value"][1] == "0"
    window = ask(server, "query", query=f"count_over_time({owned}[15m])")["result"]
    assert 33 <= int(window[0]["value"][1]) <= 38


def test_a_lost_gpu_is_missing_and_the_others_stay(server, board):
    board.xid(0, 79, at(600))
    found = ask(server, "query", query="DCGM_FI_DEV_GPU_TEMP")["result"]
    assert [item["metric"]["gpu"] for item in found] == ["1", "2", "3"]


def test_a_target_that_cannot_be_scraped_is_down_and_its_series_go_stale(server, target):
    target.error.set(START + 700, "server returned HTTP status 404 Not Found")
    assert ask(server, "query", query="up")["result"][0]["value"][1] == "0"
    assert ask(server, "query", query="DCGM_FI_DEV_GPU_UTIL")["result"] == []
    shown = ask(server, "targets")["activeTargets"][0]
    assert (shown["health"], shown["lastError"]) == ("down", "server returned HTTP status 404 Not Found")
    target.error.set(START + 850, "")
    assert ask(server, "targets")["activeTargets"][0]["health"] == "up"
    down = ask(server, "query", query="sum_over_time(up[10m]) / count_over_time(up[10m])")["result"][0]
    assert 0.7 < float(down["value"][1]) < 0.8


def test_a_range_has_a_point_for_every_step(server):
    data = ask(
        server, "query_range", query="avg(DCGM_FI_DEV_GPU_UTIL)", start=str(NOW - 300), end=str(NOW), step="1m"
    )
    assert data["resultType"] == "matrix"
    assert len(data["result"][0]["values"]) == 6


def test_series_labels_values_and_metadata_can_be_listed(server, target):
    assert len(ask(server, "series", match='DCGM_FI_DEV_FB_USED{pod="train-0"}')) == 2
    assert {"gpu", "UUID", "pod", "job", "__name__"} <= set(ask(server, "labels"))
    assert "DCGM_FI_DEV_GPU_UTIL" in ask(server, "label/__name__/values")
    assert ask(server, "label/gpu/values") == ["0", "1", "2", "3"]
    assert ask(server, "metadata", metric="DCGM_FI_DEV_FB_USED")["DCGM_FI_DEV_FB_USED"][0]["type"] == "gauge"


def test_alerts_wait_and_then_fire(server, board):
    assert {alert["state"] for alert in ask(server, "alerts", now=START + 120)["alerts"]} == {"pending"}
    board.xid(1, 94, at(800))
    alerts = ask(server, "alerts")["alerts"]
    firing = [alert for alert in alerts if alert["labels"]["alertname"] == "GpuIdle" and alert["state"] == "firing"]
    assert {alert["labels"]["gpu"] for alert in firing} == {"2", "3"}
    assert firing[0]["annotations"]["summary"] == "GPU 2 of node-a is at 0 %"
    assert [a["value"] for a in alerts if a["labels"]["alertname"] == "XidError"] == ["94"]
    group = ask(server, "rules")["groups"][0]
    assert [rule["type"] for rule in group["rules"]] == ["alerting", "alerting", "recording"]


def test_an_alert_is_active_since_the_same_moment_whenever_it_is_looked_at(server):
    def active_at(now):
        alerts = ask(server, "alerts", now=now)["alerts"]
        return {alert["labels"]["gpu"]: alert["activeAt"] for alert in alerts}

    first = active_at(START + 120)
    assert first
    assert [active_at(START + passed) for passed in (127, 140, 900)] == [first] * 3


@pytest.mark.parametrize(
    ("path", "parameters", "status", "text"),
    [
        ("query", {"query": ["up{"]}, 400, 'invalid parameter "query"'),
        ("query", {"query": ["up"], "time": ["soon"]}, 400, 'cannot parse "soon" to a valid timestamp'),
        ("query_range", {"query": ["up"], "start": ["1"], "end": ["2"], "step": ["x"]}, 400, "valid duration"),
        ("query_range", {"query": ["up"], "start": ["1"], "end": ["2"], "step": ["0"]}, 400, "zero or negative"),
        ("series", {}, 400, "no match[] parameter provided"),
        ("series", {"match[]": ["sum(up)"]}, 400, "is not a selector"),
        ("query", {"query": ['up{a=~"("}']}, 400, "invalid parameter"),
        ("nothing", {}, 404, "no such path"),
    ],
)
def test_what_cannot_be_answered_comes_in_prometheus_own_shape(server, path, parameters, status, text):
    code, document = server.answer(path, parameters, NOW)
    assert (code, document["status"]) == (status, "error")
    assert text in document["error"]


@pytest.mark.parametrize(
    "text", ["groups: [{}]", "groups: 3", "a: [", "groups: [{name: a, rules: [{alert: x, expr: 'sum('}]}]"]
)
def test_a_rules_file_that_cannot_be_used_says_why(text):
    with pytest.raises(rules.RulesError, match=r"rules\.yml: "):
        rules.load(text, "rules.yml")


def test_hostile_label_values_stay_in_their_line():
    family = Family("m", "gauge", "a\nb")
    text = render([Exposed(family, {"a": 'x"\n} 1\nevil 2\\'}, 1.0)])
    assert text.splitlines() == [r"# HELP m a\nb", "# TYPE m gauge", r'm{a="x\"\n} 1\nevil 2\\"} 1']


@pytest.fixture
def page(board):
    """The exporter's page on loopback; what is exposed is that of one moment, so both sides see the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = render(dcgm.exposed(board, at(700))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(not installed(), reason="prometheus was not found. Run: sudo apt install prometheus")
async def test_a_real_prometheus_that_scrapes_the_page_has_the_same_series(tmp_path, page, board, target):
    real = Real(tmp_path, [], scrape=page)
    try:
        while not real.ready() or not real.get("query", query="DCGM_FI_DEV_FB_USED")["data"]["result"]:
            assert real.running()
            await asyncio.sleep(0.05)
        ours = Prometheus()
        ours.database.targets.append(target)
        target.labels |= {"job": "dcgm", "instance": page}
        for name in (*dcgm.counters(), "up"):
            theirs = real.get("query", query=name)["data"]["result"]
            found = ask(ours, "query", query=name, time=str(START + 715))["result"]
            key = lambda item: str(sorted(item["metric"].items()))  # noqa: E731 - used twice, here only
            pairs = list(zip(sorted(found, key=key), sorted(theirs, key=key), strict=True))
            assert all(one["metric"] == {**two["metric"]} for one, two in pairs), name
            assert all(float(a["value"][1]) == pytest.approx(float(b["value"][1]), rel=0.4) for a, b in pairs), name
    finally:
        real.stop()
