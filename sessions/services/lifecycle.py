"""The session's states: draft, preparing, ready, live or paused, ended, scored.

Every transition is a compare-and-swap in one transaction with its event, its clock entry and its job. Asking for
the state that the session is in already changes nothing, so that a double click is harmless.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from faults import outbox
from faults import services as fault_services
from faults.models import FaultRun
from faults.tiers import policy_of_tier
from sessions import clock, end_requests, events
from sessions.errors import SessionError
from sessions.models import ClockEntry, InterviewSession
from sessions.services import clusters, phases, preparation, staging
from sessions.services.deadlines import move_deadlines
from sessions.services.quiet import stop_quiet
from sessions.services.release import ask_for_release
from sessions.services.rows import State, clean_text, locked, move, require
from sessions.services.scored import score_when_submitted

OPEN = (State.LIVE, State.PAUSED)
OVER = (State.ENDED, State.SCORED)
MOST_EXTENSION = 120  # minutes in one go


@transaction.atomic
def prepare(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Begin to build the practice cluster and to inject the faults: draft -> preparing, and a job."""
    session = locked(session)
    if session.state in (State.PREPARING, State.READY):
        return session
    if panic := fault_services.panics_over(session.cluster_id).first():
        engaged = f"{panic.engaged_by} engaged the panic stop at {timezone.localtime(panic.engaged_at):%H:%M %Z}"
        raise SessionError(f"{engaged}: nothing is prepared until an admin lifts it.")
    _require_cluster(session, actor)
    move(session, [State.DRAFT], State.PREPARING, prepared_at=clock.now())
    preparation.plan_phases(session)
    events.append(session, "session.preparing", actor=actor)
    outbox.publish("sessions.jobs.prepare_session", session.pk)
    return session


def _require_cluster(session: InterviewSession, actor: User | None) -> None:
    """Refuse a real cluster that cannot be had; practice clusters are made."""
    if session.cluster is None or policy_of_tier(session.tier).may_be_dropped:
        return
    why = clusters.refusal(cluster=session.cluster, actor=actor, holder=session.uuid)
    packs = preparation.session_packs(session)
    if why := why or fault_services.refusal_by_inventory(cluster=session.cluster, packs=packs):
        raise SessionError(why, "cluster")


@transaction.atomic
def retry_preparation(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Continue a preparation that failed or waits, from the phase that stopped it."""
    session = locked(session)
    require(session, [State.PREPARING], "be prepared again")
    if phases.ask_again(session.phases.all()):
        events.append(session, "preparation.retried", actor=actor)
        outbox.publish("sessions.jobs.prepare_session", session.pk)
    return session


@transaction.atomic
def start(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Start the clock: ready -> live. Only possible while every fault's symptom stands confirmed."""
    session = locked(session)
    if session.state == State.LIVE:
        return session
    require(session, [State.READY], "start")
    _require_active_faults(session)
    _change_clock(session, ClockEntry.Kind.START, [State.READY], State.LIVE)
    events.append(session, "session.started", actor=actor, payload={"minutes": session.minutes})
    return session


@transaction.atomic
def pause(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Stop the clock for a while: live -> paused. Where the plan chose so, the candidate is kept out meanwhile."""
    session = locked(session)
    if session.state == State.PAUSED:
        return session
    closes = {"access_revoked_at": None} if session.close_while_paused else {}
    _change_clock(session, ClockEntry.Kind.PAUSE, [State.LIVE], State.PAUSED, **closes)
    stop_quiet(session, actor)
    events.append(session, "session.paused", actor=actor)
    if session.close_while_paused:
        _enforce_access(session, "end_session_access")
    return session


@transaction.atomic
def resume(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Let the clock run on: paused -> live."""
    session = locked(session)
    if session.state == State.LIVE:
        return session
    opens = {"access_revoked_at": _closed_since(session)} if session.close_while_paused else {}
    _change_clock(session, ClockEntry.Kind.RESUME, [State.PAUSED], State.LIVE, **opens)
    events.append(session, "session.resumed", actor=actor)
    if session.close_while_paused:
        _enforce_access(session, "restore_session_access")
    staging.continue_part(session)
    return session


@transaction.atomic
def extend(*, session: InterviewSession, minutes: int, actor: User | None) -> InterviewSession:
    """Give the interview more time. Raises SessionError naming ``minutes``."""
    session = locked(session)
    require(session, [State.READY, *OPEN], "be extended")
    if not 1 <= minutes <= MOST_EXTENSION:
        raise SessionError(f"Extend by 1 to {MOST_EXTENSION} minutes at a time.", "minutes")
    _lengthen(session, ClockEntry.Kind.EXTEND, minutes * 60, "", "minutes")
    events.append(session, "session.extended", actor=actor, payload={"minutes": minutes})
    return session


@transaction.atomic
def credit(*, session: InterviewSession, seconds: int, reason: str, actor: User | None = None) -> InterviewSession:
    """Give back time that the candidate lost through us. Raises SessionError naming ``seconds`` or ``reason``."""
    session = locked(session)
    require(session, OPEN, "be credited time")
    reason = clean_text(reason, field="reason", name="The reason", limit=300, required=True)
    if not 1 <= seconds <= MOST_EXTENSION * 60:
        raise SessionError(f"Credit 1 to {MOST_EXTENSION * 60} seconds at a time.", "seconds")
    _lengthen(session, ClockEntry.Kind.CREDIT, seconds, reason, "seconds")
    events.append(session, "session.credited", actor=actor, payload={"seconds": seconds, "reason": reason})
    return session


@transaction.atomic
def end(*, session: InterviewSession, actor: User | None, at: datetime | None = None) -> InterviewSession:
    """Stop the clock and cut the candidate off. A session that never started is called off this way.

    ``at`` is when the end was pressed, where the database could not be written to then.
    """
    session = locked(session)
    if session.state in (State.ENDED, State.SCORED):
        return session
    now, started = _after_last_entry(session, at or clock.now()), session.state in OPEN
    if started:
        ClockEntry.objects.create(session=session, kind=ClockEntry.Kind.END, at=now)
    before = [State.PREPARING, State.READY, *OPEN]
    move(session, before, State.ENDED, ended_at=now, access_revoked_at=None, join_token_hash="")
    move_deadlines(session, now)
    stop_quiet(session, actor)
    events.append(session, "session.ended" if started else "session.called_off", actor=actor, at=now)
    score_when_submitted(session, actor)
    _enforce_access(session, "end_session_access")
    return session


@transaction.atomic
def reopen(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Take back the end, until the cluster is released: ended or scored -> live, and the candidate has access again.

    What was submitted stays submitted; it can be revised.
    """
    session = locked(session)
    if session.state == State.LIVE:
        return session
    require(session, OVER, "be reopened")
    if session.release_asked_at is not None:
        raise SessionError("The cluster has been released, so this session cannot be reopened.")
    if clock.started_at(session) is None:
        raise SessionError("This session was called off before it started; create a new one.")
    _require_kept_faults(session)
    closed = _closed_since(session)
    _change_clock(session, ClockEntry.Kind.RESUME, OVER, State.LIVE, ended_at=None, access_revoked_at=closed)
    events.append(session, "session.reopened", actor=actor)
    _enforce_access(session, "restore_session_access")
    return session


@transaction.atomic
def release(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Ask for the faults to be reverted and the cluster to be let go; asked once, done by a job."""
    session = locked(session)
    require(session, OVER, "be released")
    ask_for_release(session, actor)
    session.refresh_from_db()
    return session


def _closed_since(session: InterviewSession) -> datetime:
    """Return a date in any case: the closing may be under way, and whoever restores must act whatever it finds."""
    return session.access_revoked_at or clock.now()


def _enforce_access(session: InterviewSession, job: str) -> None:
    """Wake this process's enforcer on commit, and have a worker do the same."""
    transaction.on_commit(end_requests.decided.set)
    outbox.publish(f"sessions.jobs.{job}", session.pk)


def _after_last_entry(session: InterviewSession, at: datetime) -> datetime:
    """Return ``at``, but never a moment before the clock was last changed."""
    newest = session.clock_entries.order_by("-at").values_list("at", flat=True).first()
    return at if newest is None else max(at, newest)


def _change_clock(
    session: InterviewSession, kind: ClockEntry.Kind, old: Collection[State], new: State, **fields: datetime | None
) -> None:
    now = clock.now()
    move(session, old, new, **fields)
    ClockEntry.objects.create(session=session, kind=kind, at=now)
    move_deadlines(session, now)


def _lengthen(session: InterviewSession, kind: ClockEntry.Kind, seconds: int, reason: str, field: str) -> None:
    now = clock.now()
    end = clock.planned_end(session, now).timestamp() + seconds + clock.GRACE.total_seconds()
    latest = (session.prepared_at or now) + clock.LONGEST_FAULT
    if end > latest.timestamp():
        raise SessionError(f"The faults are withdrawn at {latest:%H:%M} UTC at the latest; that is too long.", field)
    ClockEntry.objects.create(session=session, kind=kind, at=now, seconds=seconds, reason=reason)
    move_deadlines(session, now)


def _require_active_faults(session: InterviewSession) -> None:
    for scenario in session.scenarios.filter(stage__isnull=True).select_related("run", "scenario_version"):
        run = scenario.run
        if not preparation.is_proven(scenario):
            word = "not prepared" if run is None else FaultRun.Status(run.status).label.lower()
            raise SessionError(
                f"{scenario.scenario_version.title}: the fault is {word}, so that there is nothing to repair."
            )


def _require_kept_faults(session: InterviewSession) -> None:
    """A fault that the candidate has repaired is no obstacle; one that was withdrawn is."""
    gone = [FaultRun.Status.REVERTING, FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED]
    if session.scenarios.filter(run__status__in=gone).exclude(stage__skipped_at__isnull=False).exists():
        raise SessionError("The faults have been withdrawn already, so this session cannot be reopened.")
