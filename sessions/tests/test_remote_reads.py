"""Reads that cost a request: one for everybody in an interval, however many look and however long it takes."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from faults import checks
from faults.checks import CommandRead, Condition, MetricRead, ObjectRead, PageRead
from faults.errors import ClusterError, NotYet, Unanswered, Unreachable
from faults.metrics import SCRAPE_INTERVAL, through_url
from faults.tests.objects import make_pod
from faults.tests.prometheus_server import gpu, prometheus, sample, vector  # noqa: F401 - a fixture
from sessions.observer.cache import Cache
from sessions.observer.kept_answers import MAX_QUESTIONS, KeptAnswers
from sessions.observer.metrics_watch import MetricsWatch
from sessions.observer.reader import CacheReader
from sessions.observer.remote_reads import INTERVAL, RemoteReads

POD = ("v1", "Pod")
QUERY = "max(DCGM_FI_DEV_GPU_UTIL)"
BUSY = Condition({"busy": MetricRead(QUERY)}, "busy.exists(s, s.value > 50.0)", "string(busy[0].value)")


class Source:
    """A cluster whose programs answer as a test wants, and which counts what it is asked."""

    def __init__(self):
        self.asked = []
        self.gate = threading.Event()
        self.gate.set()

    def review_access(self, user, attributes):
        self.asked.append((user, attributes))
        return {"allowed": True}

    def fetch(self, namespace, server, path):
        self.asked.append(path)
        if path == "/hangs":
            self.gate.wait(60)
        if path == "/silent":
            raise Unanswered("nobody answers")
        if path == "/down":
            raise Unreachable("no route to host")
        return 200, b"hello"

    def run_command(self, namespace, pod, container, command):
        self.asked.append((pod, *command))
        return 0, "ran"


@pytest.fixture
def source():
    found = Source()
    yield found
    found.gate.set()


@pytest.fixture
def metrics(prometheus, time):  # noqa: F811
    """A metrics thread that the test does the work of."""
    prometheus.answer = lambda query: vector(sample(97)) if query == QUERY else vector(gpu("GPU_UTIL", 97))
    watch = MetricsWatch(
        "c", lambda: through_url(prometheus.url, loopback=True), time, lambda: (), lambda found: None
    )
    yield watch
    watch._sampler.close()


@pytest.fixture
def remote(source, metrics, time):
    """The reads of a cluster, without their thread: the test takes its turns."""
    found = RemoteReads("c", source, metrics.query, time, lambda: found.told.append(1))
    found.told = []
    found._answers.thread = threading.current_thread()
    yield found
    found.close()


@pytest.fixture
def reader(remote, time):
    cache = Cache([POD], time, lambda kind, namespace: None)
    cache.synced(POD)
    pod = make_pod("train-0")
    pod["metadata"]["uid"] = "u1"
    pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
    cache.put(POD, "ADDED", pod)
    return CacheReader(cache, None, remote)


def page(path):
    return Condition({"page": PageRead("ml", "services/web:80", path)}, "page.status == 200", "string(page.status)")


def test_fifty_viewers_and_two_conditions_cause_no_more_requests_than_one(
    reader,
    remote,
    metrics,
    source,
    prometheus,  # noqa: F811
    time,
):
    pods = ObjectRead("v1", "Pod", "ml-training")
    run = Condition({"pods": pods, "run": CommandRead("pods", ("nvidia-smi",))}, "run.all(r, r.code == 0)", "'ok'")
    for _ in range(3):
        for _ in range(50):
            for condition in (BUSY, page("/"), page("/"), run):
                try:
                    assert checks.evaluate(condition, reader).verdict == "pass"
                except NotYet:
                    remote.take_turn()
                    metrics.take_turn()
        remote.take_turn()
        time.advance(SCRAPE_INTERVAL.total_seconds())
        metrics.take_turn()
        remote.take_turn()
    assert prometheus.queries.count(QUERY) == 4
    assert source.asked.count("/") == 4
    assert source.asked.count(("train-0", "nvidia-smi")) == 4
    assert remote.told == [1, 1]


def test_before_its_first_answer_a_condition_has_no_verdict(reader, remote, time):
    with pytest.raises(NotYet):
        checks.evaluate(page("/"), reader)
    remote.take_turn()
    assert checks.evaluate(page("/"), reader) == checks.Outcome("pass", "200")


def test_a_program_that_does_not_answer_is_seen_as_that_and_a_cluster_that_does_not_as_an_error(reader, remote):
    for path in ("/silent", "/down"):
        with pytest.raises(NotYet):
            checks.evaluate(page(path), reader)
    remote.take_turn()
    assert checks.evaluate(page("/silent"), reader) == checks.Outcome("fail", "0")
    assert checks.evaluate(page("/down"), reader).verdict == "error"


def test_an_answer_that_stays_away_is_an_error_and_no_verdict_on_old_news(reader, remote, time):
    with pytest.raises(NotYet):
        checks.evaluate(page("/"), reader)
    time.advance(11)
    assert checks.evaluate(page("/"), reader).verdict == "error"
    remote.take_turn()
    assert checks.evaluate(page("/"), reader).verdict == "pass"
    time.advance(30)
    assert checks.evaluate(page("/"), reader).verdict == "pass"
    time.advance(31)
    assert "no answer since" in checks.evaluate(page("/"), reader).finding


def test_while_prometheus_is_silent_queries_are_errors_and_it_is_not_asked_more(reader, metrics, prometheus, time):  # noqa: F811
    with pytest.raises(NotYet):
        checks.evaluate(BUSY, reader)
    metrics.take_turn()
    assert checks.evaluate(BUSY, reader) == checks.Outcome("pass", "97")
    prometheus.always((503, {}, b"no healthy upstream"))
    time.advance(SCRAPE_INTERVAL.total_seconds())
    metrics.take_turn()
    assert "503" in checks.evaluate(BUSY, reader).finding
    asked = len(prometheus.queries)
    metrics.take_turn()
    assert len(prometheus.queries) == asked


def test_a_query_that_is_refused_harms_neither_the_panels_nor_the_others(reader, metrics, prometheus):  # noqa: F811
    wrong = Condition({"busy": MetricRead("sum(")}, "true", "''")
    prometheus.answer = lambda query: (400, {}, b"{}") if query == "sum(" else vector(sample(97))
    for condition in (wrong, BUSY):
        with pytest.raises(NotYet):
            checks.evaluate(condition, reader)
    metrics.take_turn()
    assert checks.evaluate(wrong, reader).verdict == "error"
    assert checks.evaluate(BUSY, reader).verdict == "pass"
    assert metrics.error == ""


def test_what_nobody_wants_any_more_is_not_asked_for(reader, remote, source, time):
    with pytest.raises(NotYet):
        checks.evaluate(page("/"), reader)
    remote.take_turn()
    time.advance(61)
    remote.take_turn()
    assert source.asked == ["/"]


def test_questions_are_limited(time):
    kept = KeptAnswers(timedelta(seconds=5), time, lambda: None)
    for number in range(MAX_QUESTIONS):
        with pytest.raises(NotYet):
            kept.get(number)
    with pytest.raises(ClusterError, match="more than 100"):
        kept.get("one more")
    assert kept.take_due() == list(range(MAX_QUESTIONS))


def test_a_program_that_hangs_holds_up_nobody_but_the_thread_that_asks_it(source, time):
    answered = threading.Event()
    remote = RemoteReads("c", source, lambda promql: [], time, answered.set)
    source.gate.clear()
    with pytest.raises(NotYet):
        remote.fetch("ml", "services/web:80", "/hangs")
    with pytest.raises(NotYet):
        remote.fetch("ml", "services/web:80", "/hangs")
    source.gate.set()
    assert answered.wait(10)
    assert remote.fetch("ml", "services/web:80", "/hangs") == (200, b"hello")
    remote.close()
    remote._answers.thread.join(10)
    assert not remote._answers.thread.is_alive()
    assert timedelta(seconds=2) < INTERVAL
