"""Letting go: faults reverted, the environment withdrawn, the residue proved, the cluster dropped."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction

from faults import heartbeat, outbox
from faults import services as fault_services
from faults.errors import FaultError
from faults.models import FaultRun
from faults.tiers import policy_of, policy_of_tier
from sessions import clock, events
from sessions.errors import NeedsPerson
from sessions.models import InterviewSession
from sessions.services import phases
from sessions.services.access import sync_access
from sessions.services.ledger import close_open_outage
from sessions.services.phases import Work
from sessions.services.rows import locked
from sessions.services.tied_faults import own_runs

JOB = "sessions.jobs.release_session"
LONGEST_REQUEST = timedelta(seconds=5)  # the last one may begin so long before the time is over
EACH_MORE = timedelta(seconds=10)
"""For every fault after the first: each is reverted by itself, and waits for what it deletes."""
GOES_WITH_IT = "Not reverted in time: it goes with its cluster"
Outcome = InterviewSession.ReleaseOutcome


def ask_for_release(session: InterviewSession, actor: User | None) -> None:
    """Publish the release job, once; ask again where the release stopped. The caller holds the transaction."""
    stopped = session.phases.filter(key__in=_release_keys(session))
    unasked = InterviewSession.objects.filter(pk=session.pk, release_asked_at__isnull=True)
    if unasked.update(release_asked_at=clock.now()):
        phases.add(session, _titles(session))
        close_open_outage(session)
        events.append(session, "release.asked", actor=actor)
    elif phases.ask_again(stopped):
        events.append(session, "release.retried", actor=actor)
    else:
        return
    outbox.publish(JOB, session.pk)


def run_release(*, session_id: int) -> None:
    """Do what is left of a session's release. Safe to repeat at any moment."""
    if phases.run(session_id, WORKERS, _wanted):
        _finish(session_id)


def _wanted(session: InterviewSession) -> bool:
    return session.release_asked_at is not None and session.released_at is None


def _titles(session: InterviewSession) -> list[tuple[str, str]]:
    """Return the phases; what was injected last is taken back first."""
    runs = (
        session.scenarios.filter(run__isnull=False).order_by("-run_id").select_related("scenario_version__scenario")
    )
    titles = [("cut", "End the candidate's access")]
    titles += [("by-hand", "Take back faults injected by hand")] if session.tied_faults.exists() else []
    titles += [(f"revert:{s.scenario_version.scenario.slug}", f"Revert: {s.scenario_version.title}") for s in runs]
    titles += [("withdraw", "Withdraw the environment")] if session.environment_id else []
    return titles + ([("drop", "Let the cluster go")] if session.cluster_id else [])


def _release_keys(session: InterviewSession) -> list[str]:
    return [key for key, _ in _titles(session)]


def _cut(work: Work) -> None:
    sync_access(session_id=work.session.pk)


def _revert_fault(work: Work) -> None:
    run = work.scenario().run
    assert run is not None  # a phase is planned only for scenarios that have one
    _revert(run, work)


def _revert_by_hand(work: Work) -> None:
    for run in own_runs(work.session):
        if run.status != FaultRun.Status.REVERTED:
            _revert(run, work)


def _withdraw(work: Work) -> None:
    assert work.session.environment is not None  # planned only where there is one
    _revert(work.session.environment, work)


def _revert(run: FaultRun, work: Work) -> None:
    """Take a run back. Where its cluster may be dropped, for a limited time only; the drop takes the rest along."""
    work.until = _until(work.session)
    if work.until is not None and clock.now() >= work.until:
        work.report("revert", GOES_WITH_IT)
        return
    try:
        with heartbeat.beating(partial(_check_time, work.until), every_s=0.0):
            fault_services.revert_run(
                run_id=run.pk, holder=work.holder, now=clock.now(), report=work.report, hold_s=phases.HOLD_S
            )
    except OutOfTime:
        work.report("revert", GOES_WITH_IT)
        return
    require_reverted([FaultRun.objects.get(pk=run.pk)])


class OutOfTime(FaultError):
    """The time for reverting a cluster that may be dropped is over."""


def _until(session: InterviewSession) -> datetime | None:
    """Return until when the session's cluster is reverted; None: until it is done."""
    seconds = policy_of_tier(session.tier).revert_seconds
    if seconds is None:
        return None
    keys = _release_keys(session)
    started = session.phases.filter(key__in=keys, started_at__isnull=False).order_by("started_at").first()
    began = started.started_at if started and started.started_at else clock.now()
    faults = session.scenarios.filter(run__isnull=False).count()
    return began + timedelta(seconds=seconds) + EACH_MORE * max(0, faults - 1) - LONGEST_REQUEST


def _check_time(until: datetime | None) -> None:
    if until is not None and clock.now() >= until:
        raise OutOfTime("The time for reverting is over.")


def require_reverted(runs: list[FaultRun]) -> None:
    """Raise NeedsPerson with the command that helps, unless every run is reverted."""
    left = [run for run in runs if run.status != FaultRun.Status.REVERTED]
    if left:
        told = [f"{run.error or 'The revert did not finish.'}\nRun: {run.manual_command}" for run in left]
        raise NeedsPerson("\n".join(told))


def _drop(work: Work) -> None:
    """Let the cluster go: at once where it may be dropped, else once it holds nothing of ours."""
    cluster, runs = work.session.cluster, _runs(work.session)
    assert cluster is not None  # planned only where there is one
    if not policy_of(cluster).may_be_dropped:
        require_reverted(runs)
    fault_services.release_cluster(cluster=cluster)
    for run in [run for run in runs if run.status != FaultRun.Status.REVERTED]:
        fault_services.revert_run(run_id=run.pk, holder=work.holder, now=clock.now())  # asks whether it has gone
    require_reverted(_runs(work.session))
    fault_services.give_back_cluster(cluster=cluster, holder=work.session.uuid)


def _runs(session: InterviewSession) -> list[FaultRun]:
    """Return the session's runs, the newest first."""
    ids = [*session.scenarios.values_list("run_id", flat=True), session.environment_id]
    ids += [run.pk for run in own_runs(session)]
    return list(FaultRun.objects.filter(pk__in=[pk for pk in ids if pk]).order_by("-pk"))


@transaction.atomic
def _finish(session_id: int) -> None:
    session = locked(session_id)
    if session.release_asked_at is None or session.released_at is not None:
        return
    runs = _runs(session)
    left = [difference for run in runs for difference in run.residue or []]
    may_be_dropped = policy_of_tier(session.tier).may_be_dropped
    dropped = may_be_dropped and (bool(left) or any(run.dropped for run in runs))
    outcome = Outcome.DROPPED if dropped else Outcome.REVERTED
    residue = [] if dropped else left  # the host has confirmed that the cluster is gone
    InterviewSession.objects.filter(pk=session_id).update(
        released_at=clock.now(), residue=residue, release_outcome=outcome
    )
    payload = {"residue": residue, "outcome": str(outcome), **({"left": left} if dropped else {})}
    events.append(session, "session.released", payload=payload)


WORKERS: dict[str, phases.Worker] = {
    "cut": _cut,
    "by-hand": _revert_by_hand,
    "revert": _revert_fault,
    "withdraw": _withdraw,
    "drop": _drop,
}
