"""Metrics in a scorecard: as plain data in the document, and from there as the charts of its page and PDF."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from sessions import charts
from sessions.charts import Charts, Marker, Sample
from sessions.models import InterviewSession, MetricSample, SessionEvent, SessionScenario
from sessions.panels.metrics import markers_of

COLUMNS: Final = ("session_ms", "gpu_utilisation_percent", "gpu_memory_mib", "cpu_cores", "restarts")
PDF_HEIGHT = 260  # of a drawing that is charts.WIDTH wide: two stand side by side on A4


def metrics_of(
    session: InterviewSession, scenarios: Iterable[SessionScenario], events: Iterable[SessionEvent]
) -> dict[str, Any]:
    """Return what the session's pods did, and the moments to read it against."""
    pods: dict[str, list[list[float | None]]] = {}
    for ms, found in MetricSample.objects.filter(session=session).values_list("session_ms", "pods"):
        for pod, values in found.items():
            pods.setdefault(pod, []).append([ms, *values])
    return {
        "columns": list(COLUMNS),
        "pods": [{"pod": pod, "samples": samples} for pod, samples in sorted(pods.items())],
        "markers": [
            {name: value for name, value in asdict(marker).items() if name != "x"}
            for marker in markers_of(session, scenarios, events)
        ],
    }


def charts_of(card: dict[str, Any], *, height: int = charts.HEIGHT) -> Charts | None:
    """Return the charts of a scorecard, of the whole interview; None where there are no metrics."""
    moments: dict[int, dict[str, list[float | None]]] = {}
    for row in card["metrics"]["pods"]:
        for ms, *values in row["samples"]:
            moments.setdefault(ms, {})[row["pod"]] = values
    if not moments:
        return None
    samples = [Sample(ms, pods) for ms, pods in sorted(moments.items())]
    end_ms = max(card["session"]["elapsed_ms"], samples[-1].ms)
    markers = [Marker(**marker) for marker in card["metrics"]["markers"]]
    return charts.build(samples, markers, 0, end_ms, height=height)
