"""Letting go: faults reverted, the environment withdrawn, the residue proved, the cluster dropped."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from faults import outbox
from faults import services as fault_services
from faults.errors import FaultError
from faults.models import FaultRun
from sessions import clock, events
from sessions.models import InterviewSession, PreparationPhase
from sessions.services import phases
from sessions.services.access import sync_access
from sessions.services.phases import Work
from sessions.services.rows import locked

JOB = "sessions.jobs.release_session"


def ask_for_release(session: InterviewSession, actor: User | None) -> None:
    """Publish the release job, once; ask again where the release failed. The caller holds the transaction."""
    failed = session.phases.filter(status=PreparationPhase.Status.FAILED, key__in=_release_keys(session))
    unasked = InterviewSession.objects.filter(pk=session.pk, release_asked_at__isnull=True)
    if unasked.update(release_asked_at=clock.now()):
        phases.add(session, _titles(session))
        events.append(session, "release.asked", actor=actor)
    elif failed.update(status=PreparationPhase.Status.QUEUED, error=""):
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
    runs = session.scenarios.filter(run__isnull=False).select_related("scenario_version__scenario")
    titles = [("cut", "End the candidate's access")]
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


def _withdraw(work: Work) -> None:
    assert work.session.environment is not None  # planned only where there is one
    _revert(work.session.environment, work)


def _revert(run: FaultRun, work: Work) -> None:
    fault_services.revert_run(run_id=run.pk, holder=work.holder, now=clock.now(), report=work.report)
    run.refresh_from_db()
    if run.status not in (FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED):
        raise FaultError(run.error or "The revert did not finish. Try again.")


def _drop(work: Work) -> None:
    assert work.session.cluster is not None  # planned only where there is one
    fault_services.release_cluster(cluster=work.session.cluster)


@transaction.atomic
def _finish(session_id: int) -> None:
    session = locked(session_id)
    if session.release_asked_at is None or session.released_at is not None:
        return
    residue = _residue(session)
    InterviewSession.objects.filter(pk=session_id).update(released_at=clock.now(), residue=residue)
    events.append(session, "session.released", payload={"residue": residue})


def _residue(session: InterviewSession) -> list[object]:
    """Return what the runs left behind; a quarantined run is never clean."""
    runs = [s.run for s in session.scenarios.select_related("run") if s.run]
    runs += [session.environment] if session.environment else []
    left: list[object] = []
    for run in runs:
        left += run.residue or []
        if run.status == FaultRun.Status.QUARANTINED and not run.residue:
            left.append(run.manual_command or f"{run} is quarantined")
    return left


WORKERS: dict[str, phases.Worker] = {
    "cut": _cut,
    "revert": _revert_fault,
    "withdraw": _withdraw,
    "drop": _drop,
}
