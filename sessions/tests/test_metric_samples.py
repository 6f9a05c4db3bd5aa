"""Samples of metrics: of the session's own pods, in its own time, and no more than its charts can show."""

from __future__ import annotations

import pytest

from faults.metrics import PodReading, Readings
from sessions import services
from sessions.models import MetricSample
from sessions.services import metrics

PODS = (
    PodReading("ml/train-0", 97.0004, 61_000, 6.55, 2),
    PodReading("ml/api-0", None, None, 0.25, 0),
    PodReading("kube-system/dns", None, None, 0.1, 0),
)


@pytest.fixture
def keep(live, time):
    """Keep a sample of now."""
    return lambda pods=PODS, namespaces=("ml",): services.keep_sample(
        session_id=live.pk, readings=Readings(time(), (), tuple(pods)), namespaces=namespaces
    )


def test_a_sample_holds_the_pods_of_the_session_at_its_own_time(keep, live, time):
    time.advance(90)
    assert keep()
    sample = live.metric_samples.get()
    assert (sample.session_ms, sample.at) == (90_000, time())
    assert sample.pods == {"ml/train-0": [97.0, 61_000, 6.55, 2], "ml/api-0": [None, None, 0.25, 0]}


def test_samples_are_as_far_apart_as_the_charts_need(keep, live, time):
    kept = []
    for _ in range(8):
        kept.append(keep())
        time.advance(7.5)
    assert kept == [True, False] * 4
    assert metrics.spacing_ms(3600) == 15_000
    assert metrics.spacing_ms(8 * 3600) == 60_000  # 480 samples of the longest interview


def test_nothing_is_kept_while_the_clock_stands_and_none_is_kept_twice(keep, live, ada, time):
    assert keep()
    services.pause(session=live, actor=ada)
    time.advance(60)
    assert not keep()
    live.refresh_from_db()
    services.resume(session=live, actor=ada)
    assert not keep()
    time.advance(15)
    assert keep()
    assert list(MetricSample.objects.values_list("session_ms", flat=True)) == [0, 15_000]


def test_of_very_many_pods_those_with_gpus_and_those_that_compute_are_kept(keep, live):
    crowd = [PodReading(f"ml/idle-{number}", None, None, 0.0, 0) for number in range(500)]
    assert keep([*crowd, *PODS])
    pods = live.metric_samples.get().pods
    assert len(pods) == metrics.MAX_PODS
    assert list(pods)[:2] == ["ml/train-0", "ml/api-0"]


def test_an_interview_that_is_over_is_not_sampled(keep, live, ada, time):
    services.end(session=live, actor=ada)
    assert not keep()
