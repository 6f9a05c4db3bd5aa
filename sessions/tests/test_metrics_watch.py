"""The GPUs of a session's cluster: asked for once, whoever looks, and kept while Prometheus is silent."""

from __future__ import annotations

import threading

import pytest

from faults.kube.client import Kube
from faults.kube.config import Access
from faults.metrics import SCRAPE_INTERVAL, through_url
from faults.tests.prometheus_server import gpu, prometheus  # noqa: F401 - a fixture
from sessions import frames, panels
from sessions.kinds import METRICS
from sessions.live import client as live_client
from sessions.observer.cluster_sessions import ClusterSessions
from sessions.observer.publishing import Publisher
from sessions.observer.rows import node_rows
from sessions.observer.screens import Screens

HELD = {"namespace": "ml", "pod": "train-0"}
NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1"},
    "status": {"allocatable": {"nvidia.com/gpu": "2"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.fixture
def cluster(prometheus, live, time):  # noqa: F811
    """The live session's cluster, whose threads the test does the work of. Its API server does not answer."""
    prometheus.tells(
        [
            *(gpu("GPU_UTIL", 97, **HELD), gpu("FB_USED", 61_000, **HELD), gpu("FB_FREE", 20_000, **HELD)),
            *(gpu("GPU_TEMP", 88, **HELD), gpu("XID_ERRORS", 79, **HELD)),
        ],
        [],
    )
    kube = Kube(Access("https://127.0.0.1:9", ""), max_repeat_s=0)
    found = ClusterSessions("gpu-test", kube, lambda: through_url(prometheus.url, loopback=True), time)
    found.cluster.cache.put(("v1", "Node"), "ADDED", NODE)
    found.marked = []
    found.begin(live, lambda pk, names: found.marked.append((pk, frozenset(names))))
    yield found
    found.metrics.pause()
    found.cluster.kube.close()


def drawn(cluster, session):
    """Return the panel of nodes as the observer draws it now."""
    watch = cluster._watches[session.pk]
    return panels.render(session, "nodes", panels.INTERVIEWER, watch.live_state({"nodes"}))


def test_a_look_at_the_metrics_draws_the_gpus_of_each_node(cluster, live):
    cluster.metrics.take_turn()
    assert cluster.marked[-1] == (live.pk, panels.readers_of(METRICS))
    html = drawn(cluster, live)
    assert 'title="GPU 0: 97 % busy, 59.6 of 79.1 GiB, 88 °C, Xid 79, ml/train-0"' in html
    assert 'class="u5 m7 hot xid held"' in html
    assert 'aria-label="1 GPU; 1 at work, 97 % on average; 88 °C at most; Xid 79 on GPU 0"' in html
    assert html.count('class="gone"') == 1  # the node has one more GPU, of which nothing is told
    assert 'data-key="n1 0"' in html


def test_fifty_viewers_cause_no_more_queries_than_one(
    cluster,
    prometheus,  # noqa: F811
    live,
    client,
    ada,
    time,
    settings,
    redis_url,
):
    settings.REDIS_URL = redis_url
    screens = Screens(Publisher(), time, lambda session, names: cluster._watches[live.pk].live_state(names))
    frames.sign_of_life(live_client())
    client.force_login(ada)
    asked = []
    for viewers, turns in ((1, 4), (50, 1)):
        before = len(prometheus.queries)
        for _ in range(turns):
            cluster.metrics.take_turn()
            screens.mark(live.pk)
            screens.flush()
            for _ in range(viewers):
                page = client.get(f"/sessions/{live.uuid}/panels/all/")
                assert "97 % busy" in page.content.decode()
                assert client.get(f"/sessions/{live.uuid}/metrics/").status_code == 200
            time.advance(SCRAPE_INTERVAL.total_seconds())
        asked.append(len(prometheus.queries) - before)
    assert asked == [4, 1]  # the session has no namespaces yet: one group is asked for


def test_while_prometheus_is_silent_the_last_values_are_shown_with_their_age(cluster, prometheus, live, time):  # noqa: F811
    cluster.metrics.take_turn()
    prometheus.always((503, {}, b"no healthy upstream"))
    time.advance(SCRAPE_INTERVAL.total_seconds())
    cluster.marked.clear()
    cluster.metrics.take_turn()
    assert cluster.marked == [(live.pk, panels.readers_of(METRICS))]
    html = drawn(cluster, live)
    assert "97 % busy" in html
    assert "Prometheus is silent; metrics of" in html
    assert "15 s ago" in html
    assert "503" in html
    time.advance(3600)
    cluster.marked.clear()
    cluster.metrics.take_turn()
    assert cluster.marked == [], "that it is still silent is no news"


def test_without_any_metrics_gpus_are_shown_by_who_holds_them(cluster, prometheus, live):  # noqa: F811
    prometheus.always((404, {}, b""))
    cluster.metrics.take_turn()
    html = drawn(cluster, live)
    assert "0 of 2 GPUs" in html
    assert "No metrics: Prometheus does not answer" in html
    assert 'class="heat"' not in html


def test_a_prometheus_that_knows_no_gpu_is_told_of_with_when_it_last_did(cluster, prometheus, live, time):  # noqa: F811
    prometheus.tells([], [])
    lost = [drawn_after_a_turn(cluster, live)]
    time.advance(SCRAPE_INTERVAL.total_seconds())
    prometheus.tells([gpu("GPU_UTIL", 97, **HELD)], [])
    assert "97 % busy" in drawn_after_a_turn(cluster, live)
    prometheus.tells([], [])
    time.advance(SCRAPE_INTERVAL.total_seconds())
    lost.append(drawn_after_a_turn(cluster, live))
    assert "Prometheus knows no GPU" in lost[0]
    assert "Prometheus has lost the GPUs; it had them" in lost[1]
    assert all("asked 127.0.0.1" in html for html in lost)


def drawn_after_a_turn(cluster, live):
    cluster.metrics.take_turn()
    return drawn(cluster, live)


def test_metrics_are_asked_for_only_while_an_interview_is_under_way(cluster, live):
    watch = cluster._watches[live.pk]
    for state, running in (("ready", False), ("live", True), ("paused", True), ("ended", False)):
        watch._state = state
        cluster._keep_metrics()
        assert cluster.metrics.is_running is running, state
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("metrics gpu-test") <= 1


def test_readings_of_nodes_that_the_cluster_does_not_have_are_shown_nowhere():
    from faults.metrics import GpuReading

    rows = node_rows([NODE], [], [GpuReading("n1", "0", util=1), GpuReading("<b>n2", "0", util=2)])
    assert [[reading.util for reading in row.readings] for row in rows] == [[1]]
