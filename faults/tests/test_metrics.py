"""Metrics of a cluster: one query for each group and interval, kept through outages, whatever is answered."""

from __future__ import annotations

import gzip
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from faults import metrics, selectors
from faults.errors import ClusterError, Unreachable
from faults.kube.client import Kube
from faults.metrics import http_session, readings, sampler
from faults.tests.prometheus_server import gpu, prometheus, running, sample, vector  # noqa: F401 - a fixture
from faults.tests.variants import FIRST_PACK

IMAGES = FIRST_PACK
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TRAIN = {"namespace": "ml", "pod": "train-0"}


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked(prometheus, clock):  # noqa: F811
    """A sampler of the server."""
    found = metrics.Sampler(lambda: metrics.through_url(prometheus.url, loopback=True), clock)
    yield found
    found.close()


def test_a_look_asks_one_query_for_each_group_and_another_look_asks_nothing_until_the_next_scrape(
    prometheus,  # noqa: F811
    asked,
    clock,
):
    assert asked.look(["ml"])
    for _ in range(50):
        assert not asked.look(["ml"])
    assert len(prometheus.queries) == 2
    assert "DCGM_FI_DEV_" in prometheus.queries[0]
    assert 'namespace=~"ml"' in prometheus.queries[1]
    clock.advance(metrics.SCRAPE_INTERVAL.total_seconds())
    assert asked.look(["ml"])
    assert len(prometheus.queries) == 4


def test_gpus_and_pods_are_read_from_the_exporters_series(prometheus, asked):  # noqa: F811
    prometheus.tells(
        [
            *(gpu("GPU_UTIL", 90, number, **TRAIN) for number in ("0", "1")),
            *(gpu("FB_USED", 1000, number, **TRAIN) for number in ("0", "1")),
            *(gpu("FB_FREE", 3000, number, **TRAIN) for number in ("0", "1")),
            *(gpu("GPU_TEMP", 61, "0"), gpu("XID_ERRORS", 79, "10"), gpu("GPU_UTIL", 0, "2")),
        ],
        [sample(3.5, reading="cpu", **TRAIN), sample(2, reading="restarts", **TRAIN)],
    )
    asked.look(["ml"])
    found = asked.newest
    assert [each.gpu for each in found.gpus] == ["0", "1", "2", "10"]
    assert found.gpus[0] == metrics.GpuReading(
        "n1", "0", util=90, used_mib=1000, free_mib=3000, temperature=61, pod="ml/train-0"
    )
    assert found.gpus[0].total_mib == 4000
    assert found.gpus[3].xid == 79
    assert found.pods == (metrics.PodReading("ml/train-0", util=90, used_mib=2000, cpu=3.5, restarts=2),)


def test_the_labels_of_a_series_win_over_those_of_its_target(prometheus, asked):  # noqa: F811
    """Without ``honor_labels`` Prometheus renames the exporter's own pod to ``exported_pod``."""
    renamed = {"namespace": "gpu-operator", "pod": "dcgm-x", "exported_namespace": "ml", "exported_pod": "train-0"}
    prometheus.tells([gpu("GPU_UTIL", 5, node="host-1", **renamed)], [])
    asked.look(["ml"])
    assert [(each.node, each.pod) for each in asked.newest.gpus] == [("host-1", "ml/train-0")]


def test_the_memory_of_a_divided_gpu_is_the_sum_of_its_instances(prometheus, asked):  # noqa: F811
    prometheus.tells([gpu("FB_USED", 100, GPU_I_ID="1"), gpu("FB_USED", 200, GPU_I_ID="2")], [])
    asked.look([])
    assert asked.newest.gpus[0].used_mib == 300


@pytest.mark.parametrize(
    "series",
    [
        gpu("GPU_UTIL", "NaN"),
        gpu("GPU_UTIL", "+Inf"),
        gpu("GPU_UTIL", "1e300"),
        gpu("GPU_UTIL", "ninety"),
        gpu("GPU_UTIL", 1, node=""),
        gpu("GPU_UTIL", 1, gpu=""),
        gpu("SM_CLOCK", 1980),
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL"}},
        {"metric": ["DCGM_FI_DEV_GPU_UTIL"], "value": [0, "1"]},
        {"metric": {}, "value": []},
        {"metric": {}, "value": None},
        "text",
        None,
        7,
    ],
    ids=str,
)
def test_a_series_that_makes_no_sense_is_left_out(prometheus, asked, series):  # noqa: F811
    prometheus.tells([series, gpu("GPU_UTIL", 50, gpu="1")], [series])
    assert asked.look(["ml"])
    assert [(each.gpu, each.util) for each in asked.newest.gpus] == [("1", 50)]


def test_names_are_bounded_and_every_character_of_them_shows(prometheus, asked):  # noqa: F811
    labels = {"namespace": "ml", "pod": "x\u202e\x1b[2J" + "y" * 5000}
    prometheus.tells([gpu("GPU_UTIL", 1, **labels)], [])
    asked.look([])
    pod = asked.newest.gpus[0].pod
    assert len(pod) <= readings.MAX_NAME + len("ml/")
    assert not {"\u202e", "\x1b"} & set(pod)


def test_no_more_series_are_read_than_a_large_cluster_has(prometheus, asked, monkeypatch):  # noqa: F811
    monkeypatch.setattr(readings, "MAX_SERIES", 10)
    prometheus.tells([gpu("GPU_UTIL", 1, gpu=str(number)) for number in range(100)], [])
    asked.look([])
    assert len(asked.newest.gpus) == 10


def test_only_names_of_namespaces_get_into_a_query():
    assert readings.pod_query(['ml"} or vector(1) #', "ml", "a|b", "x" * 64]).count('namespace=~"ml"') == 2


OUTAGES = {
    "500": (500, {}, b"broken"),
    "HTML": (200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"),
    "no object": (200, {}, b"[1, 2]"),
    "another document": (200, {}, b'{"kind": "Status"}'),
    "no vector": (200, {}, b'{"status": "success", "data": null}'),
    "deep": (200, {}, b"[" * 100_000),
    "half": (200, {"Content-Length": "5000"}, b'{"status"'),
}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_what_was_told_last_stays_through_an_outage_and_tries_grow_rare(prometheus, asked, clock, outage):  # noqa: F811
    prometheus.tells([gpu("GPU_UTIL", 42)], [])
    asked.look(["ml"])
    prometheus.always((outage[0], {"Connection": "close", **outage[1]}, outage[2]))
    pauses = []
    for _ in range(4):
        clock.advance(asked.due_in_s())
        assert not asked.look(["ml"])
        pauses.append(asked.due_in_s())
    assert [each.util for each in asked.newest.gpus] == [42]
    assert asked.newest.at == NOON
    assert "Prometheus" in asked.error or "does not answer as" in asked.error
    interval = metrics.SCRAPE_INTERVAL.total_seconds()
    assert all(interval <= pause <= sampler.MAX_PAUSE_S for pause in pauses)
    prometheus.tells([gpu("GPU_UTIL", 43)], [])
    clock.advance(asked.due_in_s())
    assert asked.look(["ml"])
    assert (asked.error, [each.util for each in asked.newest.gpus]) == ("", [43])


def source(server, **options):
    return metrics.through_url(server.url, **{"loopback": True, **options})


def test_an_answer_that_is_too_large_is_cut_off_packed_or_not(prometheus):  # noqa: F811
    large = b'{"status": "success", "data": {"result": [' + b" " * (http_session.MAX_BYTES + 1) + b"]}}"
    for headers, body in (({}, large), ({"Content-Encoding": "gzip"}, gzip.compress(large))):
        prometheus.always((200, headers, body))
        with pytest.raises(Unreachable, match="larger than 5 MB"):
            source(prometheus).query("up")


def test_an_answer_that_drips_is_cut_off(prometheus, monkeypatch):  # noqa: F811
    monkeypatch.setattr(http_session, "MAX_ANSWER_S", 0.0)
    with pytest.raises(Unreachable, match="took more than"):
        source(prometheus).query("up")


def test_a_redirect_is_not_followed(prometheus):  # noqa: F811
    prometheus.always((302, {"Location": f"{prometheus.url}/elsewhere"}, b""))
    with pytest.raises(Unreachable, match="302"):
        source(prometheus).query("up")
    assert len(prometheus.queries) == 1


def test_addresses_of_this_machine_and_of_metadata_services_are_refused_before_anything_is_sent(prometheus):  # noqa: F811
    for url, loopback in ((prometheus.url, False), ("http://169.254.169.254/", True), ("http://[::1]:1", False)):
        with pytest.raises(ClusterError, match="refused"):
            metrics.through_url(url, loopback=loopback)
    assert prometheus.queries == []


def test_a_name_that_leads_to_this_machine_once_it_is_connected_to_is_refused(prometheus, monkeypatch):  # noqa: F811
    monkeypatch.setattr("faults.kube.addresses.check_url", lambda url, loopback: ["192.0.2.1"])
    for path in ("", "/a/../b", "/%61"):  # which requests writes its own way
        with pytest.raises(Unreachable, match="this machine itself"):
            metrics.through_url(prometheus.url + path, loopback=False).query("up")
    assert prometheus.queries == []


def test_proxies_of_the_environment_see_nothing(prometheus, monkeypatch):  # noqa: F811
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert source(prometheus).query("up") == []


def test_a_prometheus_that_hangs_is_given_up(prometheus, monkeypatch):  # noqa: F811
    monkeypatch.setattr("faults.metrics.prometheus.TIMEOUT_S", (0.2, 0.2))
    gate = threading.Event()
    prometheus.answer = lambda query: (gate.wait(60), vector())[1]
    with pytest.raises(Unreachable, match="cannot be reached"):
        source(prometheus).query("up")
    gate.set()


@pytest.fixture
def two(prometheus, clock):  # noqa: F811
    """Two servers of one cluster, of which the first is found first, and a sampler."""
    with running() as second:

        def connect():
            first = metrics.through_url(prometheus.url, loopback=True)
            first.where, first.others = "first", [lambda: metrics.through_url(second.url, loopback=True)]
            return first

        found = metrics.Sampler(connect, clock)

        def look():
            clock.advance(metrics.SCRAPE_INTERVAL.total_seconds())
            found.look([])
            return found.newest

        yield prometheus, second, look
        found.close()


@pytest.mark.parametrize("answer", [vector(), (503, {}, b"no healthy upstream")], ids=["no series", "silent"])
def test_where_one_server_has_lost_the_gpus_another_of_the_cluster_is_asked(two, answer):
    first, second, look = two
    first.always(answer)
    second.tells([gpu("GPU_UTIL", 97)], [])
    assert look().gpus[0].util == 97
    assert look().no_gpus == ""
    assert (len(first.queries), len(second.queries)) == (1, 2)
    second.tells([], [])
    first.tells([gpu("GPU_UTIL", 3)], [])
    assert look().gpus[0].util == 3


def test_where_no_server_has_any_gpu_it_is_told_who_was_asked_and_since_when(two, clock):
    first, second, look = two
    assert (look().gpus_at, look().no_gpus) == (None, "asked first and 127.0.0.1")
    first.tells([gpu("GPU_UTIL", 97)], [])
    seen = look().at
    first.tells([], [])
    assert (look().gpus_at, look().gpus) == (seen, ())


# A practice cluster, whose Prometheus is behind the API server.


def test_a_practice_clusters_prometheus_is_asked_through_the_api_server(cluster, clock):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("faults.metrics.prometheus.TIMEOUT_S", (10, 60))
        patch.setattr("faults.selectors.IMPATIENT_S", (10, 60))
        found = metrics.Sampler(lambda: selectors.prometheus_for(cluster), clock)
        end, gate = time.monotonic() + 120, threading.Event()
        while not (found.look(["monitoring"]) and found.newest.gpus):
            assert not found.error
            assert time.monotonic() < end, "Prometheus has scraped nothing"
            clock.advance(metrics.SCRAPE_INTERVAL.total_seconds())
            gate.wait(0.5)  # it scrapes every 15 s, each target at its own moment
    assert {each.util for each in found.newest.gpus} == {0}
    assert {each.gpu for each in found.newest.gpus} == set("01234567")
    assert all(each.total_mib > 70_000 and each.temperature > 20 for each in found.newest.gpus)
    found.close()


def test_a_cluster_without_a_prometheus_says_so(kube: Kube):
    for service in ("prometheus", "kube-state-metrics"):
        kube.delete("v1", "Service", service, "monitoring")
    with pytest.raises(ClusterError, match="no service of a Prometheus"):
        metrics.find_service(kube)


@pytest.mark.parametrize(
    ("labels", "ports", "chosen"),
    [
        (
            {"operated-prometheus": "true"},
            [{"name": "grpc", "port": 10901}, {"name": "http-web", "port": 9091}],
            9091,
        ),
        ({"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "server"}, [{"port": 80}], 80),
        ({"app": "kube-prometheus-stack-prometheus"}, [{"name": "reloader", "port": 8080}, {"port": 9090}], 9090),
    ],
)
def test_the_services_of_the_usual_installations_are_found(kube: Kube, labels, ports, chosen):
    kube.delete("v1", "Service", "prometheus", "monitoring")
    named = [{"name": f"p{number}", **port} for number, port in enumerate(ports)]
    alertmanager = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "alertmanager"}
    for name, put in (("a-alerts", alertmanager), ("mine", labels)):
        meta = {"name": name, "namespace": "default", "labels": put}
        kube.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": named}})
    assert str(metrics.find_service(kube)) == f"default/mine:{chosen}"
    assert [str(service) for service in metrics.find_services(kube)] == [f"default/mine:{chosen}"]
