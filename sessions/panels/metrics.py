"""The charts of a session: what its pods did, beside faults, hints and fixes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sessions import charts, clock
from sessions.charts import Marker, Sample
from sessions.models import InterviewSession, MetricSample, SessionEvent, SessionScenario
from sessions.panels.subject import Context, Subject, clock_of, scenarios_of
from sessions.services.metrics import spacing_ms

RANGES: Final = ((0, "All"), (30, "30 min"), (10, "10 min"))
"""Minutes that the charts may go back, and what that is called."""
MARKED: Final = {
    "hint.released": ("Hint", "bulb", "violet"),
    "scenario.fixed": ("Fix", "tick", "green"),
    "scenario.regressed": ("Fix undone", "back", "orange"),
}
_FAULT = ("triangle", "amber")


def parse_minutes(text: str) -> int:
    """Return the range that a request names; all of the interview where there is no such range."""
    return next((minutes for minutes, _ in RANGES if str(minutes) == text), 0)


def metrics(subject: Subject) -> Context:
    """Return the charts of the chosen range, and when Prometheus last told anything."""
    times = clock_of(subject.session, subject.now)
    rows = list(MetricSample.objects.filter(session=subject.session).order_by("session_ms"))
    samples = [Sample(row.session_ms, row.pods) for row in rows]
    end_ms = times["elapsed_ms"]
    begin_ms = max(0, end_ms - subject.minutes * 60_000) if subject.minutes else 0
    events = SessionEvent.objects.filter(session=subject.session, kind__in=MARKED).order_by("seq")
    markers = markers_of(subject.session, scenarios_of(subject.session), events)
    return {
        "charts": charts.build(samples, markers, begin_ms, end_ms),
        "ranges": [(minutes, word, minutes == subject.minutes) for minutes, word in RANGES],
        "sampled_at": rows[-1].at if rows else None,
        "stale_s": 3 * spacing_ms(times["budget_ms"] // 1000) // 1000,
        **times,
    }


def markers_of(
    session: InterviewSession, scenarios: Iterable[SessionScenario], events: Iterable[SessionEvent]
) -> list[Marker]:
    """Return a session's faults, hints and fixes, in order. A fault that was there at the start is at zero."""
    faults = [
        Marker(clock.elapsed_ms(session, row.run.injected_at), f"Fault: {row.scenario_version.title}", *_FAULT)
        for row in scenarios
        if row.run is not None and row.run.injected_at is not None
    ]
    told = [_marker(event) for event in events if event.kind in MARKED]
    return sorted([*faults, *told], key=lambda marker: marker.ms)


def _marker(event: SessionEvent) -> Marker:
    word, shape, hue = MARKED[event.kind]
    title: Any = event.payload.get("title", "")
    return Marker(event.session_ms, f"{word}: {title}" if title else word, shape, hue)
