"""Times of an interview's parts as it goes: when each began, and when it ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sessions import clock
from sessions.models import InterviewSession, SessionScenario, StagedPart

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Span:
    """A part's time in milliseconds of the session; None where it depends on a start that nobody has asked for."""

    begin_ms: int | None
    end_ms: int | None


def spans(
    session: InterviewSession, scenarios: Collection[SessionScenario], staged: Iterable[StagedPart]
) -> list[Span]:
    """Return the span of each part.

    A staged part begins when its faults were proven, any other when the one before it ends. A part ends after its
    minutes, or earlier: once all of its scenarios have held, where it has nothing else. One that was skipped takes
    no time.
    """
    stages = {stage.number: stage for stage in staged}
    found: list[Span] = []
    at: int | None = 0
    for number, part in enumerate(session.parts):
        stage = stages.get(number)
        if stage is not None and stage.skipped_at is not None:
            found.append(Span(None, at))
            continue
        begin = at if stage is None else stage.began_ms
        at = None if begin is None else begin + int(part.get("minutes") or 0) * MINUTE_MS
        done = _done_ms(session, part, [row for row in scenarios if row.part == number])
        at = done if at is not None and done is not None and done < at else at
        found.append(Span(begin, at))
    return found


def _done_ms(session: InterviewSession, part: dict[str, object], scenarios: list[SessionScenario]) -> int | None:
    """Return when everything in a part was done; None where something is open, or is to be spoken about."""
    held = [row.held_at for row in scenarios if row.held_at is not None]
    if not scenarios or len(held) < len(scenarios) or part.get("questions") or part.get("tasks"):
        return None
    return clock.elapsed_ms(session, max(held))


def begins_ms(
    session: InterviewSession, scenarios: Collection[SessionScenario], staged: Iterable[StagedPart]
) -> dict[int, int | None]:
    """Return when each scenario begins, by its primary key: one after the other within a part, in their order.

    The next one begins once the one before it has held, or when that one's minutes are over.
    """
    found: dict[int, int | None] = {}
    spans_of_parts = spans(session, scenarios, staged)
    for number, span in enumerate(spans_of_parts):
        at = span.begin_ms
        for row in sorted((row for row in scenarios if row.part == number), key=lambda row: row.position):
            found[row.pk] = at
            if at is not None:
                over = at + row.scenario_version.minutes * MINUTE_MS
                at = over if row.held_at is None else max(at, min(over, clock.elapsed_ms(session, row.held_at)))
    return found
