"""A run's life: inject, confirm the symptom, revert. Each can be called again after its worker died anywhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from faults import checks, practice, selectors
from faults.checks import Condition
from faults.clock import Clock, RealClock
from faults.engine import Stuck, compare, fingerprint, no_failpoint, orphans, settle
from faults.errors import ClusterError
from faults.models import Cluster, FaultRun, Step
from faults.services.establishing import establish
from faults.services.work import Failpoint, Report, Work, silent, working

Status = FaultRun.Status
INJECTABLE = (Status.PLANNED, Status.INJECTING, Status.FAILED)
LOOK_S = 0.1
RESIDUE_PATIENCE_S = 10.0
LETTING_GO = ("Checking for residue", "Waiting for the cluster to let go")
Wait = Callable[[float], None]


def inject_run(
    *,
    run_id: int,
    holder: str,
    now: datetime | None = None,
    report: Report = silent,
    failpoint: Failpoint = no_failpoint,
) -> FaultRun:
    """Make a run's changes. An environment is then active; a fault waits for ``confirm_symptom``.

    Continues where a worker died; does nothing for a run that has got further. Raises LeaseHeld while another worker
    is on it, and ClusterError: where another try is no use, the run is FAILED and says why.
    """
    with working(run_id, holder, now, report, failpoint) as work:
        run = work.run()
        if run.status in INJECTABLE and not (run.status == Status.INJECTING and run.injected_at):
            try:
                _inject(work, run)
            except ClusterError as exc:
                _note_failure(work, exc)
                raise
    return _fresh(run_id)


def confirm_symptom(
    *,
    run_id: int,
    holder: str,
    clock: Clock | None = None,
    timeout_s: float = 60.0,
    report: Report = silent,
) -> FaultRun:
    """Look until every symptom of an injected fault shows, then the run is ACTIVE with ``symptom_at``.

    After ``timeout_s`` seconds without it the run is FAILED with what was seen; calling again looks again.
    """
    clock = clock or RealClock()
    with working(run_id, holder, clock.now(), report) as work:
        run = work.run()
        if run.purpose == FaultRun.Purpose.FAULT and run.injected_at and run.status in INJECTABLE:
            _watch_for_symptom(work, run, clock, timeout_s)
    return _fresh(run_id)


def revert_run(
    *,
    run_id: int,
    holder: str,
    now: datetime | None = None,
    report: Report = silent,
    failpoint: Failpoint = no_failpoint,
    wait: Wait | None = None,
) -> FaultRun:
    """Take a run's changes back, whatever its state, and prove that nothing is left: ``residue`` is [].

    Ends REVERTED, or QUARANTINED with the command that a person must run. Raises LeaseHeld, and a retryable
    ClusterError where the cluster does not answer: call again.
    """
    with working(run_id, holder, now, report, failpoint) as work:
        run = work.run()
        if run.status != Status.REVERTED:
            _revert(work, run, wait or RealClock().wait)
    return _fresh(run_id)


def _inject(work: Work, run: FaultRun) -> None:
    work.update(status=Status.INJECTING, injecting_at=run.injecting_at or work.now(), error="")
    if run.fingerprint_before is None:
        work.report("Taking the fingerprint", "Looking at everything the session may touch")
        picture = fingerprint(work.kube(), selectors.namespaces_of(run))
        work.update(fingerprint_before=picture, mirrored_deadline=run.deadline)
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        establish(work, run)
    else:
        work.engine().apply(selectors.changes_of(run), lambda line: work.report("Injecting", line), mend=True)
    work.failpoint("before-status")
    _finish_injecting(work, run)


def _finish_injecting(work: Work, run: FaultRun) -> None:
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        work.update(status=Status.ACTIVE, injected_at=work.now(), phase="Active", detail="")
    else:
        work.update(injected_at=work.now(), phase="Waiting for the symptom", detail="")


def _note_failure(work: Work, exc: ClusterError) -> None:
    status = Status.INJECTING if exc.retryable else Status.FAILED
    work.update(status=status, error=exc.message)


def _watch_for_symptom(work: Work, run: FaultRun, clock: Clock, timeout_s: float) -> None:
    reader = selectors.reader_for(run.cluster)
    symptom = list(selectors.bound_pack(run).symptom)
    end = clock.now() + timedelta(seconds=timeout_s)
    work.update(status=Status.INJECTING, error="")
    seen = ""
    while True:
        confirmed, finding = _look_at(symptom, reader)
        if finding != seen:
            seen = finding
            work.report("Waiting for the symptom", seen)
        if confirmed:
            work.update(status=Status.ACTIVE, symptom_at=work.now(), phase="Active", detail=seen, error="")
            return
        if clock.now() >= end:
            work.update(status=Status.FAILED, error=f"The symptom did not show within {timeout_s:.0f} s: {seen}")
            return
        work.beat("Waiting for the symptom", seen)
        clock.wait(LOOK_S)


def _look_at(symptom: list[Condition], reader: checks.Reader) -> tuple[bool, str]:
    """Look once: whether the whole symptom shows, and what was seen at that very look.

    Where it shows, the finding is the proof: every condition's, one per line. Where not, it is that of the first
    condition which is missing.
    """
    findings = []
    for condition in symptom:
        outcome = checks.evaluate(condition, reader)
        if outcome.verdict != "pass":
            return False, outcome.finding
        findings.append(outcome.finding)
    return True, "\n".join(filter(None, findings))


def _revert(work: Work, run: FaultRun, wait: Wait) -> None:
    work.update(status=Status.REVERTING, reverting_at=run.reverting_at or work.now(), error="", manual_command="")
    if _nothing_to_do(run):
        _finish_reverting(work, [])
        return
    engine = work.engine()
    stuck = engine.revert(lambda line: work.report("Reverting", line))
    if stuck:
        _quarantine(work, stuck)
        return
    work.report(*LETTING_GO)
    journal = work.journal()
    settle(work.kube(), journal.records(), wait=wait, guard=partial(work.beat, *LETTING_GO))
    journal.close()
    work.failpoint("revert-before-status")
    _finish_reverting(work, _residue_after(work, run, wait))


def _nothing_to_do(run: FaultRun) -> bool:
    """Return whether no step was ever sent, or the cluster has gone with all that was in it."""
    cluster = run.cluster
    if run.fingerprint_before is None or cluster.released_at is not None:
        return True
    return cluster.tier == Cluster.Tier.PRACTICE and not practice.exists(cluster.name)


def _quarantine(work: Work, stuck: list[Stuck]) -> None:
    work.update(
        status=Status.QUARANTINED,
        phase="Needs you",
        error="\n".join(f"{entry.record.target}: {entry.error.message}" for entry in stuck),
        manual_command="\n".join(entry.command for entry in stuck),
        residue=[f"{entry.record.target} could not be reverted" for entry in stuck],
    )


@transaction.atomic
def _finish_reverting(work: Work, residue: list[str]) -> None:
    work.update(status=Status.REVERTED, reverted_at=work.now(), residue=residue, phase="Reverted", detail="")
    Step.objects.filter(run_id=work.run_id).exclude(status=Step.Status.REVERTED).update(
        status=Step.Status.REVERTED, outcome="gone with its cluster", reverted_at=work.now()
    )


def _residue_after(work: Work, run: FaultRun, wait: Wait) -> list[str]:
    """Look until nothing is left, or for long enough: deletions may still be under way."""
    waited = 0.0
    while (residue := _residue(work, run)) and waited < RESIDUE_PATIENCE_S:
        work.beat(*LETTING_GO)
        wait(LOOK_S)
        waited += LOOK_S
    return residue


def _residue(work: Work, run: FaultRun) -> list[str]:
    """Return what is left of a run.

    An environment is the whole world of its session: everything has to be as before it. A fault answers for its own
    steps and what descends from them; what the candidate made and changed meanwhile is theirs, and goes with the
    environment.
    """
    kube = work.kube()
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        return compare(run.fingerprint_before or {}, fingerprint(kube, selectors.namespaces_of(run)))
    left = [f"{record.target} still holds an injected value" for record in work.engine().leftovers()]
    for namespace in selectors.namespaces_of(run):
        left += [
            f"{obj['kind']} {namespace}/{obj['metadata']['name']} is left over" for obj in orphans(kube, namespace)
        ]
    return left


def _fresh(run_id: int) -> FaultRun:
    return FaultRun.objects.select_related("cluster", "scenario_version").get(pk=run_id)
