"""The panel of the parts that start during the interview: what each waits for, and what an interviewer may do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sessions import part_times
from sessions.models import InterviewSession, PreparationPhase, StagedPart
from sessions.panels.subject import Context, Subject, scenarios_of, staged_parts_of
from sessions.services.staging import phases_of
from sessions.settled import settles

_STATES = InterviewSession.State
Status = PreparationPhase.Status


@dataclass(frozen=True, slots=True)
class StageRow:
    """A part that has not begun, or that is being taken back.

    ``state`` is waiting, working, stopped (an interviewer has to decide), undoing or stuck. ``starts_ms`` is the
    session time at which it starts by itself, as far as that is known; ``waits_s`` until the next try. ``is_later``:
    another one waits before it.
    """

    stage: StagedPart
    title: str
    state: str
    detail: str = ""
    error: str = ""
    starts_ms: int | None = None
    waits_s: int | None = None
    is_later: bool = False
    settles: tuple[str, ...] = ()
    """The titles of the scenarios that its start settles."""

    @property
    def key(self) -> str:
        """Return a name for its row on the page."""
        return f"stage-{self.stage.number}"

    @property
    def number(self) -> int:
        """Return the part's number as people count."""
        return self.stage.number + 1

    @property
    def heading(self) -> str:
        """Return the part's title after its number; a part without a title of its own has the number alone."""
        name = f"Part {self.number}"
        return name if self.title == name else f"{name}: {self.title}"

    @property
    def is_automatic(self) -> bool:
        """Whether it starts by itself."""
        return self.stage.start == StagedPart.Start.AUTOMATIC


def stages(subject: Subject) -> Context:
    """Return the parts that wait for their start, are being set up, or could not be."""
    session = subject.session
    running = session.state in (_STATES.LIVE, _STATES.PAUSED)
    rows = [row for stage in staged_parts_of(session) if (row := _row(subject, stage))] if running else []
    waiting = [row for row in rows if row.state == "waiting"]
    rows = [replace(row, is_later=True) if row in waiting[1:] else row for row in rows]
    begun = sum(stage.began_at is not None for stage in staged_parts_of(session))
    return {"stages": rows, "may_start": session.state == _STATES.LIVE, "begun": begun}


def troubled_parts(session: InterviewSession) -> list[str]:
    """Return the titles of the parts that could not be set up and wait for an interviewer."""
    under_way = [stage for stage in staged_parts_of(session) if stage.is_under_way]
    return [_title(session, stage) for stage in under_way if any(_failed(phases_of(session, stage)))]


def _row(subject: Subject, stage: StagedPart) -> StageRow | None:
    session = subject.session
    title = _title(session, stage)
    if stage.is_waiting:
        return StageRow(
            stage, title, "waiting", starts_ms=_starts_ms(session, stage), settles=_settles(session, stage)
        )
    if stage.began_at is not None:
        return None
    rows = list(phases_of(session, stage).exclude(status=Status.DONE))
    if stage.skipped_at is not None:
        return _row_of_phases(subject, stage, title, rows, ("undoing", "stuck")) if rows else None
    return _row_of_phases(subject, stage, title, rows, ("working", "stopped"))


def _row_of_phases(
    subject: Subject, stage: StagedPart, title: str, rows: list[PreparationPhase], states: tuple[str, str]
) -> StageRow:
    stopped = next(iter(_failed(rows)), None)
    if stopped is not None:
        return StageRow(stage, title, states[1], detail=stopped.title, error=stopped.error)
    shown = next((row for row in rows if row.status != Status.QUEUED), None)
    if shown is None:
        return StageRow(stage, title, states[0])
    waits = shown.status == Status.WAITING and shown.next_try_at is not None
    waits_s = (shown.next_try_at - subject.now).total_seconds() if waits and shown.next_try_at else None
    seconds = None if waits_s is None else math.ceil(max(0.0, waits_s))
    detail = f"{shown.title}: {shown.detail}" if shown.detail else shown.title
    return StageRow(stage, title, states[0], detail=detail, error=shown.error, waits_s=seconds)


def _failed(rows: Iterable[PreparationPhase]) -> list[PreparationPhase]:
    return [row for row in rows if row.status == Status.FAILED]


def _starts_ms(session: InterviewSession, stage: StagedPart) -> int | None:
    if stage.start != StagedPart.Start.AUTOMATIC:
        return None
    return part_times.spans(session, scenarios_of(session), staged_parts_of(session))[stage.number - 1].end_ms


def _title(session: InterviewSession, stage: StagedPart) -> str:
    outline: Mapping[str, object] = session.parts[stage.number]
    return str(outline.get("title", "Part"))


def _settles(session: InterviewSession, stage: StagedPart) -> tuple[str, ...]:
    rows = scenarios_of(session)
    begin = (row for row in rows if row.stage_id == stage.pk)
    return tuple(dict.fromkeys(other.scenario_version.title for row in begin for other in settles(row, rows)))
