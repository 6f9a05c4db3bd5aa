"""Staged parts: their faults are injected and proven while the interview runs, and shown to the candidate then.

A start is asked for once, by an interviewer or by the clock, and carried out by a job in phases that survive its
worker. What cannot be injected or proven leaves the interview as it is: the candidate sees nothing of the part, and
an interviewer tries it again or skips it, which takes back what was injected so far.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from faults import outbox
from faults import services as fault_services
from faults.errors import FaultError, NotFound, NotYet
from faults.models import FaultRun
from sessions import clock, events, part_times
from sessions.errors import SessionError
from sessions.models import InterviewSession, PreparationPhase, SessionScenario, StagedPart
from sessions.services import phases, preparation
from sessions.services.phases import Work
from sessions.services.release import require_reverted
from sessions.services.rows import State, locked, require

JOB = "sessions.jobs.start_part"
OPEN = (State.LIVE, State.PAUSED)
FORGOTTEN = "The cluster has lost what the fault builds on: it has come back from a snapshot. Try again in a moment."


@transaction.atomic
def start_part(*, session: InterviewSession, number: int, actor: User | None) -> StagedPart:
    """Ask for a part's start, once: its faults are injected, and the candidate sees it when they are proven.

    ``actor`` is None where it starts by itself.
    """
    session = locked(session)
    stage = _stage(session, number)
    if stage.asked_at is not None and stage.skipped_at is None:
        return stage
    require(session, [State.LIVE], "start a part")
    _require_startable(session, stage)
    now = clock.now()
    StagedPart.objects.filter(pk=stage.pk).update(asked_at=now, asked_by=actor)
    phases.add(session, _titles(stage))
    events.append(session, "part.asked", actor=actor, payload=_payload(session, stage), at=now)
    outbox.publish(JOB, session.pk)
    stage.refresh_from_db()
    return stage


@transaction.atomic
def retry_part(*, session: InterviewSession, number: int, actor: User | None) -> StagedPart:
    """Try again at once what failed or waits of a part: to start it, or to take it back."""
    session = locked(session)
    stage = _stage(session, number)
    require(session, [State.LIVE], "try a part again")
    if phases.ask_again(phases_of(session, stage)):
        events.append(session, "part.retried", actor=actor, payload=_payload(session, stage))
        outbox.publish(JOB, session.pk)
    return stage


@transaction.atomic
def skip_part(*, session: InterviewSession, number: int, actor: User | None) -> StagedPart:
    """Leave a part out that has not begun, for good. What was injected of it is taken back."""
    session = locked(session)
    stage = _stage(session, number)
    if stage.skipped_at is not None:
        return stage
    require(session, OPEN, "skip a part")
    if stage.began_at is not None:
        raise SessionError(f"{_name(session, stage)} has begun: the candidate is working on it.")
    now = clock.now()
    StagedPart.objects.filter(pk=stage.pk).update(skipped_at=now)
    phases_of(session, stage).exclude(status=PreparationPhase.Status.DONE).delete()
    phases.add(session, _undo_titles(stage))
    events.append(session, "part.skipped", actor=actor, payload=_payload(session, stage), at=now)
    outbox.publish(JOB, session.pk)
    stage.refresh_from_db()
    return stage


@transaction.atomic
def hold_part(*, session: InterviewSession, number: int, actor: User | None) -> StagedPart:
    """Let a part that would start by itself wait for the button."""
    session = locked(session)
    stage = _stage(session, number)
    require(session, OPEN, "change when a part starts")
    waiting = StagedPart.objects.filter(pk=stage.pk, asked_at=None, skipped_at=None)
    if waiting.filter(start=StagedPart.Start.AUTOMATIC).update(start=StagedPart.Start.BUTTON):
        events.append(session, "part.held", actor=actor, payload=_payload(session, stage))
    stage.refresh_from_db()
    return stage


def run_parts(*, session_id: int) -> None:
    """Do what is left of starting parts, and of taking skipped ones back. Safe to repeat at any moment."""
    skipped = -1
    while skipped != _count_skipped(session_id):  # a part was skipped meanwhile: now it is to be taken back
        skipped = _count_skipped(session_id)
        if phases.run(session_id, WORKERS, partial(_wanted, skipped=skipped)):
            _begin(session_id)


def continue_part(session: InterviewSession) -> None:
    """Publish the job again for a part whose start a pause has interrupted. The caller holds the transaction."""
    if _under_way(session).exists():
        outbox.publish(JOB, session.pk)


def start_due_parts(now: datetime) -> int:
    """Start the parts that start by themselves and whose time has come; return how many that were."""
    waiting = StagedPart.objects.filter(
        start=StagedPart.Start.AUTOMATIC, asked_at=None, skipped_at=None, session__state=State.LIVE
    )
    due = [stage for stage in waiting.select_related("session") if _is_due(stage, now)]
    return sum(_start_by_itself(stage) for stage in due)


def unfinished_sessions() -> QuerySet[InterviewSession]:
    """Return the running sessions with a part that is to begin, or of which something is to be taken back."""
    asked = StagedPart.objects.filter(asked_at__isnull=False, began_at=None, skipped_at=None)
    undone = PreparationPhase.objects.filter(key__startswith=f"{UNDO}:").exclude(status=PreparationPhase.Status.DONE)
    running = InterviewSession.objects.filter(state=State.LIVE)
    return running.filter(pk__in=asked.values("session")) | running.filter(pk__in=undone.values("session"))


def phases_of(session: InterviewSession, stage: StagedPart) -> QuerySet[PreparationPhase]:
    """Return the phases of starting a part, or of taking it back."""
    slugs = [row.scenario_version.scenario.slug for row in _scenarios(stage)]
    return session.phases.filter(key__in=[f"{kind}:{slug}" for kind in WORKERS for slug in slugs])


def _is_due(stage: StagedPart, now: datetime) -> bool:
    session = stage.session
    found = part_times.spans(session, list(session.scenarios.all()), session.staged_parts.all())
    before = found[stage.number - 1].end_ms if stage.number else 0
    return before is not None and clock.elapsed_ms(session, now) >= before


def _start_by_itself(stage: StagedPart) -> bool:
    with suppress(SessionError):  # another part is being set up, or somebody has just paused: looked at again soon
        start_part(session=stage.session, number=stage.number, actor=None)
        return True
    return False


def _stage(session: InterviewSession, number: int) -> StagedPart:
    stage = session.staged_parts.filter(number=number).first()
    if stage is None:
        raise SessionError("This part is there from the beginning of the interview.")
    return stage


def _require_startable(session: InterviewSession, stage: StagedPart) -> None:
    if stage.skipped_at is not None:
        raise SessionError(f"{_name(session, stage)} was skipped; its scenarios cannot be injected any more.")
    if other := _under_way(session).first():
        raise SessionError(f"{_name(session, other)} is being set up. Wait for it, try it again, or skip it.")
    if panic := fault_services.panics_over(session.cluster_id).first():
        since = f"{timezone.localtime(panic.engaged_at):%H:%M %Z}"
        raise SessionError(f"{panic.engaged_by} engaged the panic stop at {since}: no part can start.")


def _under_way(session: InterviewSession) -> QuerySet[StagedPart]:
    return session.staged_parts.filter(asked_at__isnull=False, began_at=None, skipped_at=None)


def _name(session: InterviewSession, stage: StagedPart) -> str:
    return f"“{session.parts[stage.number].get('title', 'Part')}”"


def _payload(session: InterviewSession, stage: StagedPart) -> dict[str, object]:
    return {"part": stage.number, "title": str(session.parts[stage.number].get("title", ""))}


def _scenarios(stage: StagedPart) -> list[SessionScenario]:
    return list(stage.scenarios.select_related("scenario_version__scenario", "run").order_by("position"))


def _titles(stage: StagedPart) -> list[tuple[str, str]]:
    return preparation.injection_phases(row.scenario_version for row in _scenarios(stage))


def _undo_titles(stage: StagedPart) -> list[tuple[str, str]]:
    """Return the phases of taking back what was injected, the newest first."""
    injected = sorted((row for row in _scenarios(stage) if row.run_id), key=lambda row: -(row.run_id or 0))
    return [
        (f"{UNDO}:{row.scenario_version.scenario.slug}", f"Take back: {row.scenario_version.title}")
        for row in injected
    ]


def _count_skipped(session_id: int) -> int:
    return StagedPart.objects.filter(session=session_id, skipped_at__isnull=False).count()


def _wanted(session: InterviewSession, skipped: int) -> bool:
    """Whether to go on: a pause stops the work, and what is skipped meanwhile is not wanted any more."""
    return session.state == State.LIVE and _count_skipped(session.pk) == skipped


def _inject(work: Work) -> None:
    cluster = preparation.require_environment(work.session).cluster
    run = _plan_run(work, preparation.cluster_values(cluster, work.session, work.scenario()))
    try:
        preparation.inject(run, work)
    except NotFound as exc:
        raise FaultError(FORGOTTEN) from exc


@transaction.atomic
def _plan_run(work: Work, values: dict[str, str]) -> FaultRun:
    """Plan the run of a phase's scenario while the part is wanted: an end or a skip finds every run there is."""
    session, scenario = locked(work.session), work.scenario()
    wanted = StagedPart.objects.filter(scenarios=scenario, skipped_at=None).exists()
    if session.state != State.LIVE or not wanted:
        raise NotYet("Not wanted now")
    return preparation.plan_run(session, scenario, values)


def _undo(work: Work) -> None:
    run = work.scenario().run
    assert run is not None  # the phase is there for scenarios with one
    run = fault_services.revert_run(
        run_id=run.pk, holder=work.holder, now=clock.now(), report=work.report, hold_s=phases.HOLD_S
    )
    require_reverted([run])


@transaction.atomic
def _begin(session_id: int) -> None:
    """Show the candidate the part whose faults are all proven."""
    session = locked(session_id)
    if session.state != State.LIVE:
        return
    now = clock.now()
    for stage in _under_way(session):
        if all(preparation.is_proven(row) for row in _scenarios(stage)):
            began_ms = clock.elapsed_ms(session, now)
            StagedPart.objects.filter(pk=stage.pk).update(began_at=now, began_ms=began_ms)
            took = (now - (stage.asked_at or now)).total_seconds()
            payload = _payload(session, stage) | {"seconds": round(took, 3)}
            events.append(session, "part.began", payload=payload, at=now)


UNDO = "undo"
WORKERS: dict[str, phases.Worker] = {"inject": _inject, "symptom": preparation.confirm_symptom, UNDO: _undo}
