"""Reads beyond objects and logs, on a practice cluster: metrics, access reviews, pages, and commands in pods."""

from __future__ import annotations

import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from faults import checks, heartbeat
from faults import practice as practice_clusters
from faults.checks import AccessRead, CommandRead, Condition, LogRead, MetricRead, ObjectRead, PageRead
from faults.cluster_reader import ReaderWithPrometheus
from faults.engine.model import Request
from faults.errors import ClusterError, NotFound, Unanswered
from faults.kube import commands
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.metrics import through_url
from faults.tests.objects import ObjectReader, make_pod
from faults.tests.prometheus_server import gpu, prometheus, vector  # noqa: F401 - a fixture

PODS = ObjectRead("v1", "Pod", "default", "app=web")
MAKE = {"image": "python:3.9-slim", "command": ["python3", "-m", "http.server", "8080"]}
AGAIN = "seq 1 20; test -e /data/again && exec sleep 999; touch /data/again; exit 4"


@pytest.fixture(scope="module")
def web(practice_host):
    """A cluster with a web server in it, for all tests of this file."""
    with override_settings(**practice_host.settings):
        until = datetime.now(UTC) + timedelta(hours=1)
        made = practice_clusters.create("reads", until, present=["python:3.9-slim"])
    kube = Kube(parse(made["kubeconfig"]))
    meta = {"name": "web", "namespace": "default", "labels": {"app": "web"}}
    kube.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "web", **MAKE}]}}
    )
    ports = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    kube.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": ports})
    eventually(lambda: holds(kube, "page.status == 200", page=PageRead("default", "services/web:80", "/")))
    yield kube
    kube.close()


def eventually(true):
    end, gate = machine_time.monotonic() + 60, threading.Event()
    while not true():
        assert machine_time.monotonic() < end
        gate.wait(0.2)


def holds(reader, expr, **reads):
    """Return whether a condition passes; any verdict but pass and fail is a mistake of the test."""
    outcome = checks.evaluate(Condition(reads, expr, "''"), reader)
    assert outcome.verdict in ("pass", "fail"), outcome
    return outcome.verdict == "pass"


def run(*words):
    return CommandRead("pods", words)


# Commands.


def test_a_command_runs_in_the_pods_of_another_read(web):
    script = run("sh", "-c", "echo out; echo err >&2; exit 3")
    expr = "size(run) == 1 && run[0].pod == 'web' && run[0].code == 3"
    assert holds(
        web, expr + " && run[0].output.contains('out') && run[0].output.contains('err')", pods=PODS, run=script
    )


def test_a_command_that_does_not_end_has_the_code_of_a_timeout_and_its_output_so_far(web, monkeypatch):
    monkeypatch.setattr(commands, "MAX_COMMAND_S", 1.0)
    assert holds(
        web, "run[0].code == 124 && run[0].output == 'a\\n'", pods=PODS, run=run("sh", "-c", "echo a; sleep 99")
    )


def test_a_flood_is_cut_off(web):
    flood = run("sh", "-c", "while true; do echo 0123456789012345678901234567890123456789; done")
    assert holds(web, "run[0].code == 124 && size(run[0].output) == 16384", pods=PODS, run=flood)


def test_a_command_that_is_missing_has_a_code_of_its_own(web):
    assert holds(web, "run[0].code != 0", pods=PODS, run=run("no-such-program"))


@pytest.mark.torture
def test_of_many_commands_none_is_lost(web):
    """One in fifty was, while one thread read a TLS connection into which another wrote."""
    for number in range(300):
        assert web.run_command("default", "web", "web", ["echo", str(number)]) == (0, f"{number}\n")


def test_a_command_that_takes_long_keeps_the_leases_that_it_is_run_under(web):
    kept = []
    with heartbeat.beating(lambda: kept.append(True), every_s=0.5):
        assert web.run_command("default", "web", "web", ["sleep", "1.2"]) == (0, "")
    assert kept


def test_no_command_runs_where_no_container_does(web):
    with pytest.raises(NotFound):
        web.run_command("default", "no-such-pod", "web", ["true"])
    with pytest.raises(ClusterError):
        web.run_command("default", "web", "no-such-container", ["true"])
    ending = make_pod("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-01-05T12:00:00Z"
    pods = ObjectRead("v1", "Pod", "ml-training")
    assert holds(ObjectReader(make_pod("ended"), ending), "run == []", pods=pods, run=run("true"))


# Pages.


def test_a_page_has_status_body_and_json(web):
    expr = "page.status == 200 && page.body.contains('Directory listing') && page.json == null"
    assert holds(web, expr, page=PageRead("default", "pods/web:8080", "/"))
    assert holds(web, "page.status == 404", page=PageRead("default", "services/web:80", "/nothing"))


@pytest.mark.parametrize("server", ["services/web:81", "services/nobody:80", "pods/web:9999", "pods/nobody:80"])
def test_a_program_that_does_not_answer_is_a_value_and_no_error(web, server):
    assert holds(web, "page.status == 0 && page.body != ''", page=PageRead("default", server, "/"))


def test_pages_come_through_the_kubelet_as_they_do_through_the_proxy(web, monkeypatch):
    monkeypatch.setattr(web, "reaches_pods", False)
    expr = "page.status == 200 && page.body.contains('Directory listing') && page.json == null"
    for server in ("pods/web:8080", "services/web:80"):
        assert holds(web, expr, page=PageRead("default", server, "/"))
    assert holds(web, "page.status == 404", page=PageRead("default", "services/web:80", "/nothing?a=b%20c"))
    assert web.call("default", "pods/web:8080", Request("POST", "/", {"a": 1})).status == 501
    nobody = "page.status == 0 && page.body.contains('connection refused')"
    assert holds(web, nobody, page=PageRead("default", "pods/web:9999", "/"))
    assert holds(web, "page.status == 0 && page.body != ''", page=PageRead("default", "services/web:81", "/"))


@pytest.mark.parametrize(
    ("body", "expr"),
    [
        (b'{"a": [1, 2.5, 99999999999999999999]}', "page.json.a[0] == 1 && page.json.a[2] > 9e18"),
        (b"[" * 10_000, "page.json == null"),
        (b'{"a": NaN}', "page.json == null"),
        (b'{"a": 1e999}', "page.json == null || page.json.a > 1.0"),
        (b"\xff\xfe" * 100_000, "page.json == null && size(page.body) <= 3 * 16384"),
    ],
)
def test_whatever_a_page_answers_is_data(body, expr):
    class Hostile(ObjectReader):
        def fetch(self, namespace, server, path):
            return 200, body

    assert holds(Hostile(), expr, page=PageRead("default", "services/web:80", "/"))


# Access reviews.


def test_an_access_review_tells_what_an_account_may_do(web):
    prometheus_account = "system:serviceaccount:monitoring:prometheus"
    assert holds(web, "may.allowed", may=AccessRead(prometheus_account, "list", "pods"))
    assert holds(web, "!may.allowed", may=AccessRead(prometheus_account, "delete", "pods"))
    assert holds(web, "!may.allowed", may=AccessRead("nobody", "create", "jobs", "batch", namespace="default"))


# Logs.


def test_logs_have_a_tail_and_those_of_the_container_before(web):
    meta = {"name": "again", "namespace": "default", "labels": {"app": "again"}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "python:3.9-slim", "command": ["sh", "-c", AGAIN], "volumeMounts": mounts}
    spec = {"containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    web.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    pods = ObjectRead("v1", "Pod", "default", "app=again")
    eventually(lambda: holds(web, "pods.exists(p, restarts(p) == 1)", pods=pods))
    assert holds(web, "log == ['19\\n20\\n']", pods=pods, log=LogRead("pods", previous=True, tail=2))
    assert holds(web, "log[0].startsWith('1\\n2\\n')", pods=pods, log=LogRead("pods"))


def test_a_long_log_is_read_from_both_its_ends():
    lines = "device cpu\n" + "step\n" * 50_000 + "done\n"
    expr = "log[0].startsWith('device cpu') && log[0].endsWith('done\\n') && size(log[0]) < 70000"
    pods = ObjectRead("v1", "Pod", "ml-training")
    assert holds(ObjectReader(make_pod("a"), logs={"a": lines}), expr, pods=pods, log=LogRead("pods"))


# Metrics.


def test_the_clusters_own_prometheus_is_asked_through_the_api_server(web):
    answer = MetricRead('label_replace(vector(41 + 1), "of", "all", "", "")')
    eventually(lambda: holds(web, "size(s) == 1 && s[0].value == 42.0 && s[0].metric == {'of': 'all'}", s=answer))


def test_a_query_that_prometheus_refuses_is_an_error_with_its_words(web):
    outcome = checks.evaluate(Condition({"up": MetricRead("up{")}, "true", "''"), web)
    assert outcome.verdict == "error"
    assert "refused a query" in outcome.finding
    assert "parse error" in outcome.finding


def test_a_prometheus_elsewhere_is_asked_at_its_own_address(prometheus):  # noqa: F811
    prometheus.always(vector(gpu("GPU_UTIL", 3), gpu("GPU_UTIL", "NaN", "1"), {"metric": 1}, "x"))
    reader = ReaderWithPrometheus(ObjectReader(), lambda: through_url(prometheus.url, loopback=True))
    assert holds(reader, "size(s) == 1 && s[0].value == 3.0 && s[0].metric.gpu == '0'", s=MetricRead("util"))
    assert prometheus.queries == ["util"]


def test_checks_of_one_round_ask_for_the_same_thing_once():
    class Counted(ObjectReader):
        def query(self, promql):
            self.asked.append(promql)
            return []

        def fetch(self, namespace, server, path):
            self.asked.append(path)
            raise Unanswered("nobody")

    reader = Counted()
    reads = {"s": MetricRead("up"), "page": PageRead("a", "services/b:80", "/")}
    rows = [checks.Check(key, key, 1, (), 0, Condition(reads, "s == []", "''")) for key in ("a", "b")]
    assert {each.verdict for each in checks.evaluate_all(rows, reader).values()} == {"pass"}
    assert reader.asked == ["up", "/", "/"]
