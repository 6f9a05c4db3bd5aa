"""The observer's cache of one cluster, and what checks read from it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from faults.errors import ClusterError
from faults.tests.objects import make_pod
from sessions.observer.cache import EVENT, MOST_EVENTS, Cache
from sessions.observer.reader import CacheReader, matches

POD = ("v1", "Pod")
ROOT = Path(__file__).resolve().parents[2]


def numbered(obj, uid):
    return {**obj, "metadata": {**obj["metadata"], "uid": uid}}


@pytest.fixture
def changed():
    return []


@pytest.fixture
def cache(time, changed):
    return Cache([POD, EVENT], time, lambda kind, namespace: changed.append(kind))


def test_the_cache_follows_a_watch_and_drops_what_nobody_reads(cache, changed):
    pod = numbered(make_pod("a"), "1")
    pod["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    cache.synced(POD)
    cache.put(POD, "ADDED", pod)
    assert "managedFields" not in cache.current(POD)[0]["metadata"]
    cache.put(POD, "DELETED", {"metadata": {"uid": "1", "name": "a"}})
    assert cache.current(POD) == []
    assert changed == [POD, POD, POD]


def test_what_is_out_of_date_is_an_error_for_checks_and_still_a_row_for_panels(cache, time):
    with pytest.raises(ClusterError, match="Pod has not been listed yet"):
        cache.current(POD)
    cache.synced(POD)
    cache.put(POD, "ADDED", numbered(make_pod("a"), "1"))
    time.advance(10)
    cache.stale(POD, "connection refused")
    time.advance(10)
    cache.stale(POD, "connection refused")
    with pytest.raises(ClusterError, match="no news since 12:00:10: connection refused"):
        cache.current(POD)
    assert len(cache.objects(POD)) == 1
    assert cache.stale_since == time() - timedelta(seconds=10)
    cache.synced(POD)
    assert cache.stale_since is None
    assert len(cache.current(POD)) == 1


def test_a_cluster_that_does_not_answer_makes_everything_stale_until_it_does(cache):
    cache.synced(POD)
    cache.stale(None, "timed out")
    with pytest.raises(ClusterError, match="timed out"):
        cache.current(POD)
    cache.answered()
    assert cache.current(POD) == []


def test_a_kind_that_is_not_watched_is_an_error(cache):
    with pytest.raises(ClusterError, match="Secret of v1 is not watched"):
        cache.current(("v1", "Secret"))


def test_the_cache_is_complete_once_every_kind_was_listed(cache):
    cache.synced(POD)
    assert not cache.complete
    cache.synced(EVENT)
    assert cache.complete


def test_the_cache_keeps_the_newest_events_only(cache):
    for number in range(MOST_EVENTS + 10):
        cache.put(EVENT, "ADDED", {"metadata": {"uid": str(number), "name": str(number)}})
    kept = [event["metadata"]["uid"] for event in cache.objects(EVENT)]
    assert (len(kept), kept[-1]) == (MOST_EVENTS, str(MOST_EVENTS + 9))


@pytest.mark.parametrize(
    ("selector", "answer"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier!=db", True),
        ("app=web,tier", False),
        ("!tier", True),
        ("app!=web", False),
        ("app = web", True),
    ],
)
def test_label_selectors_by_equality(selector, answer):
    assert matches(selector, {"app": "web"}) is answer


def test_checks_read_from_the_cache_by_namespace_and_label(cache):
    cache.synced(POD)
    for uid, pod in enumerate([make_pod("a"), make_pod("b", job="other"), make_pod("c", namespace="elsewhere")]):
        cache.put(POD, "ADDED", numbered(pod, str(uid)))
    reader = CacheReader(cache, None)
    found = reader.list("v1", "Pod", "ml-training", "job-name=nightly-train")
    assert [pod["metadata"]["name"] for pod in found] == ["a"]
    assert len(reader.list("v1", "Pod")) == 3
