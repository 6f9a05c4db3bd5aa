"""A run's beginning: inject, confirm the symptom. Each can be called again after its worker died anywhere."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from faults import checks, selectors
from faults.checks import Condition
from faults.clock import Clock, RealClock
from faults.engine import Fingerprint, fingerprint, namespace_picture, no_failpoint
from faults.errors import ClusterError, NotYet
from faults.models import FaultRun
from faults.services.establishing import establish
from faults.services.granting import controlled_objects, grant_rights, watched_namespaces
from faults.services.panic_state import refuse_while_engaged
from faults.services.rollout_events import forget_rollouts
from faults.services.toolboxes import missing_toolbox
from faults.services.work import Failpoint, Report, Work, silent, working

Status = FaultRun.Status
INJECTABLE = (Status.PLANNED, Status.INJECTING, Status.FAILED)
NO_FAILURE = {"detail": "", "error": "", "attempts": 0, "tried_at": None, "next_try_at": None}
LOOK_S, NOTE_S = 0.1, 1.0
"""Between two looks at a symptom, and between two notes of how long it was looked for."""
MAX_LOOK_S = 1.0
"""Between two looks once it takes long: what waits for a scrape or a back-off comes no sooner for more looks."""
LOOKING = {
    FaultRun.Purpose.ENVIRONMENT: ("Taking the fingerprint", "Looking at everything the session may touch"),
    FaultRun.Purpose.FAULT: ("Injecting", "Looking at the cluster's namespaces"),
    FaultRun.Purpose.API: ("Injecting", "Looking at the cluster's namespaces"),
}
TOOLBOX_S = 20.0
HOLD_S = 60.0  # jobs hold their lane for less


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
    return fresh(run_id)


def confirm_symptom(
    *,
    run_id: int,
    holder: str,
    clock: Clock | None = None,
    timeout_s: float = 60.0,
    hold_s: float = HOLD_S,
    report: Report = silent,
) -> FaultRun:
    """Look until every symptom of an injected fault shows, then the run is ACTIVE with ``symptom_at``.

    After ``timeout_s`` seconds in which the cluster could be looked at, and no symptom, the run is FAILED with what
    was seen; calling again looks again. Raises NotYet after ``hold_s`` seconds: nobody's worker is held for longer.
    """
    clock = clock or RealClock()
    with working(run_id, holder, clock.now(), report) as work:
        run = work.run()
        if run.purpose == FaultRun.Purpose.FAULT and run.injected_at and run.status in INJECTABLE:
            _watch_for_symptom(work, run, clock, timeout_s, hold_s)
    return fresh(run_id)


def _inject(work: Work, run: FaultRun) -> None:
    refuse_while_engaged(run.cluster)  # with the lease in hand: a panic that comes later breaks it
    if run.purpose == FaultRun.Purpose.FAULT and not selectors.bound_pack(run).has_fault:
        work.update(status=Status.ACTIVE, phase="Active", **NO_FAILURE)
        return
    begun: dict[str, Any] = {"status": Status.INJECTING, "injecting_at": run.injecting_at or work.now(), "error": ""}
    if run.fingerprint_before is None:
        work.report(*LOOKING[FaultRun.Purpose(run.purpose)], **begun)
        run.fingerprint_before = _picture_before(run)
        known = {"fingerprint_before": run.fingerprint_before, "mirrored_deadline": run.deadline}
        work.report("Injecting", "Making the changes", **known)
        refuse_while_engaged(run.cluster)  # one that came before this run could be found among those to stop
    else:
        work.update(**begun)
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        establish(work, run)
    else:
        if run.purpose == FaultRun.Purpose.FAULT:
            grant_rights(run=run, report=work.listener)
            _await_toolbox(work, run)
        work.engine(run).apply(selectors.changes_of(run), lambda line: work.progress("Injecting", line), mend=True)
    work.failpoint("before-status")
    _finish_injecting(work, run)


def _await_toolbox(work: Work, run: FaultRun) -> None:
    """Let a toolbox that has only just been made start, where Terraform is to run in it. Raises ClusterError."""
    session = selectors.environment_beside(run) if selectors.bound_pack(run).workspace else None
    if session is None:
        return
    work.report("Injecting", "Waiting for the toolbox")
    if missing := missing_toolbox(run=session, hold_s=TOOLBOX_S):
        raise ClusterError(f"The toolbox, in which Terraform is to run, does not: {missing}.", retryable=True)


def _picture_before(run: FaultRun) -> Fingerprint:
    """Return what a run's residue is compared with later: for a fault, which answers for its own steps, next to
    nothing.
    """
    if run.purpose != FaultRun.Purpose.ENVIRONMENT:
        return namespace_picture(selectors.kube_for(run.cluster))
    namespaces = [*selectors.all_namespaces_of(run), *watched_namespaces(run)]
    return fingerprint(selectors.kube_for(run.cluster), namespaces) | controlled_objects(run)


def _finish_injecting(work: Work, run: FaultRun) -> None:
    if run.purpose != FaultRun.Purpose.FAULT:
        work.finish(status=Status.ACTIVE, injected_at=work.now(), phase="Active", **NO_FAILURE)
    else:
        work.finish(injected_at=work.now(), phase="Waiting for the symptom", **NO_FAILURE)


def _note_failure(work: Work, exc: ClusterError) -> None:
    status = Status.INJECTING if exc.retryable else Status.FAILED
    work.note_failure(exc.message, getattr(exc, "retry_after", None), status=status)


def _watch_for_symptom(work: Work, run: FaultRun, clock: Clock, timeout_s: float, hold_s: float) -> None:
    symptom = list(selectors.bound_pack(run).symptom)
    reader = selectors.reader_for(run.cluster)
    began = clock.now()
    before = 0.0 if run.status == Status.FAILED else run.looked_seconds
    if (run.status, run.error, run.looked_seconds) != (Status.INJECTING, "", before):
        work.update(status=Status.INJECTING, error="", looked_seconds=before)
    if run.looked_seconds:
        _mend(work, run)
    seen, due = "", 0.0
    while True:
        confirmed, finding = _look_at(symptom, reader)
        held = (clock.now() - began).total_seconds()
        if confirmed:
            work.listener("Waiting for the symptom", finding)
            forget_rollouts(run=run)
            work.finish(status=Status.ACTIVE, symptom_at=work.now(), phase="Active", detail=finding, next_try_at=None)
            return
        notes = {"looked_seconds": before + held} if held >= min(due, hold_s) or before + held >= timeout_s else {}
        due = held + NOTE_S if notes else due
        if finding != seen:
            seen = finding
            work.report("Waiting for the symptom", seen, **notes)
        elif notes:
            work.update(**notes)
        if before + held >= timeout_s:
            work.update(status=Status.FAILED, error=f"The symptom did not show within {timeout_s:.0f} s: {seen}")
            return
        if held >= hold_s:
            raise NotYet(seen)
        work.beat("Waiting for the symptom", seen)
        clock.wait(min(max(LOOK_S, held / 20), MAX_LOOK_S))


def _mend(work: Work, run: FaultRun) -> None:
    """Make again what the cluster has forgotten: one that comes back from a snapshot may lack the last second."""
    changes = selectors.changes_of(run)
    work.engine().apply(changes, lambda line: work.report("Waiting for the symptom", line), mend=True)


def _look_at(symptom: list[Condition], reader: checks.Reader) -> tuple[bool, str]:
    """Look once: whether the whole symptom shows, and what was seen at that very look.

    Where it shows, the finding is the proof: every condition's, one per line. Where not, it is that of the first
    condition which is missing. Raises ClusterError where the cluster could not be read: an outage is no symptom's
    absence.
    """
    findings = []
    for condition in symptom:
        outcome = checks.evaluate(condition, reader)
        if outcome.verdict == "error":
            reader.list("v1", "Namespace")
        if outcome.verdict != "pass":
            return False, outcome.finding
        findings.append(outcome.finding)
    return True, "\n".join(filter(None, findings))


def fresh(run_id: int) -> FaultRun:
    """Return a run as it is now, with what belongs to it; what is large of that is read once it is asked for."""
    runs = FaultRun.objects.select_related("cluster", "scenario_version")
    return runs.defer("fingerprint_before", "scenario_version__files").get(pk=run_id)
