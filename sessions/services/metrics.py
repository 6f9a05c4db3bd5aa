"""Samples of what a session's pods do, for the charts on its page and in its scorecard.

They are kept while the interview runs rather than asked for at its end: a practice cluster is dropped with its
Prometheus, and one that is silent at the end would leave no charts at all.
"""

from __future__ import annotations

from collections.abc import Collection

from faults.metrics import SCRAPE_INTERVAL, PodReading, Readings
from sessions import clock
from sessions.models import InterviewSession, MetricSample

MAX_SAMPLES = 480  # of an interview that lasts as long as it may: longer ones are sampled less often
MAX_PODS = 40
_EARLY = 0.9  # of the spacing: a look comes some milliseconds early or late


def keep_sample(*, session_id: int, readings: Readings, namespaces: Collection[str]) -> bool:
    """Keep what the session's pods did, unless its clock stands or the last sample is too young; return whether."""
    session = InterviewSession.objects.prefetch_related("clock_entries").get(pk=session_id)
    if not clock.is_running(session):
        return False
    now_ms = clock.elapsed_ms(session, readings.at)
    newest = MetricSample.objects.filter(session=session).order_by("-session_ms").values_list("session_ms", flat=True)
    last_ms = newest.first()
    if last_ms is not None and now_ms - last_ms < spacing_ms(clock.budget_s(session)) * _EARLY:
        return False
    pods = {each.pod: _numbers(each) for each in _chosen(readings.pods, namespaces)}
    sample = MetricSample(session=session, at=readings.at, session_ms=now_ms, pods=pods)
    MetricSample.objects.bulk_create([sample], ignore_conflicts=True)
    return True


def spacing_ms(budget_s: int) -> int:
    """Return the time between two samples of an interview of such a length."""
    return max(int(SCRAPE_INTERVAL.total_seconds() * 1000), budget_s * 1000 // MAX_SAMPLES)


def _chosen(pods: Collection[PodReading], namespaces: Collection[str]) -> list[PodReading]:
    """Return the session's own pods: those with GPUs first, then those that compute most."""
    own = [each for each in pods if each.pod.partition("/")[0] in namespaces]
    return sorted(own, key=lambda each: (each.util is None, -(each.cpu or 0.0), each.pod))[:MAX_PODS]


def _numbers(reading: PodReading) -> list[float | None]:
    values = (reading.util, reading.used_mib, reading.cpu, reading.restarts)
    return [None if value is None else round(value, 3) for value in values]
