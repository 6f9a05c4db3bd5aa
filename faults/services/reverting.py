"""A run's end: taken back, examined, and looked at again. Each can be called again after its worker died anywhere.

Nothing here says "reverted" without having asked: the cluster for its objects or, where it was made for one session,
its host for the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from faults import fault_signals, practice, selectors
from faults.clock import RealClock
from faults.engine import (
    Fingerprint,
    Record,
    Stuck,
    compare,
    fingerprint,
    held,
    kubectl_name,
    left_over,
    no_failpoint,
    orphans,
    settle,
    strip_finalizers,
)
from faults.errors import ClusterError, JournalError, NotYet
from faults.injectors import ACTIONS, KINDS
from faults.kube.mirror import NAMESPACE
from faults.models import Cluster, FaultRun, InjectedFault, Step
from faults.services.candidates_objects import delete_candidates_objects
from faults.services.controlled_objects import known_before
from faults.services.granting import controlled_objects, watched_namespaces
from faults.services.mirrors import mirror_of
from faults.services.running import fresh
from faults.services.work import Failpoint, Report, Work, silent, working
from faults.tiers import policy_of

Status = FaultRun.Status
LOOK_S = 0.1
HOLD_S = 60.0  # jobs hold their lane for less
SETTLE_PATIENCE_S = 60.0
RESIDUE_PATIENCE_S = 10.0
RECHECKED = timedelta(minutes=10)  # for so long after its revert a run is looked at again, whatever the cluster says
LOOK_AGAIN = timedelta(seconds=1)
LETTING_GO = ("Checking for residue", "Waiting for the cluster to let go")
AGENT_KINDS = [name for name, kind in KINDS.items() if kind.needs_agent]
Wait = Callable[[float], None]
Records = Callable[[], Sequence[Record]]


def revert_run(
    *,
    run_id: int,
    holder: str,
    now: datetime | None = None,
    report: Report = silent,
    failpoint: Failpoint = no_failpoint,
    wait: Wait | None = None,
    hold_s: float = HOLD_S,
) -> FaultRun:
    """Take a run's changes back, whatever its state, and prove that nothing is left: ``residue`` is [].

    Ends REVERTED, or QUARANTINED with the command that a person must run. A quarantined run is looked at again by
    every call, and keeps its command until the cluster says that it is done. Raises LeaseHeld; NotYet after
    ``hold_s`` seconds in which the cluster has not let go; and ClusterError where it does not answer, with the time
    of the next try in the run.
    """
    with working(run_id, holder, now, report, failpoint) as work:
        run = work.run()
        if run.status != Status.REVERTED:
            try:
                _revert(work, run, wait or RealClock().wait, hold_s)
            except NotYet as exc:
                work.update(detail=str(exc), tried_at=work.now(), next_try_at=work.now() + LOOK_AGAIN)
                raise
            except ClusterError as exc:
                cause = run.error if run.status == Status.QUARANTINED else exc.message
                work.note_failure(cause, getattr(exc, "retry_after", None))
                raise
    return fresh(run_id)


def recheck_reverted(*, cluster: Cluster, now: datetime) -> int:
    """Open the reverted runs again whose effect is back because the cluster came back from a snapshot.

    A resourceVersion older than at the revert tells so for good; a cluster that lost a second may have caught up, so
    that recent reverts are looked at in any case. Returns the number of runs to revert again. Raises ClusterError.
    """
    reverted = cluster.runs.filter(status=Status.REVERTED, dropped=False, reverted_version__gt=0)
    runs = list(reverted.select_related("cluster", "scenario_version"))
    if not runs:
        return 0
    newest = selectors.kube_for(cluster).newest_version()
    suspects = [run for run in runs if 0 < newest < run.reverted_version or _is_recent(run, now)]
    back = [run.pk for run in suspects if _is_back(run)]
    FaultRun.objects.filter(pk__in=[run.pk for run in suspects]).exclude(pk__in=back).update(reverted_version=newest)
    again = FaultRun.objects.filter(pk__in=back, status=Status.REVERTED)
    return again.update(status=Status.REVERTING, residue=None, next_try_at=None, settling_at=None)


def _is_recent(run: FaultRun, now: datetime) -> bool:
    return run.reverted_at is not None and run.reverted_at > now - RECHECKED


def _is_back(run: FaultRun) -> bool:
    work = Work(run.pk, run.epoch, lambda: run.reverted_at or run.created_at, no_failpoint, silent)
    return bool(work.engine().leftovers()) or mirror_of(run).remains()


def _revert(work: Work, run: FaultRun, wait: Wait, hold_s: float) -> None:
    work.update(reverting_at=run.reverting_at or work.now())
    if run.status != Status.QUARANTINED:
        work.update(status=Status.REVERTING, error="", manual_command="")
    if run.fingerprint_before is None or _is_gone(run.cluster):
        _finish(work, [], dropped=run.fingerprint_before is not None)
        return
    _keep_agents(run, work.now())
    stuck = work.engine().revert(lambda line: work.progress("Reverting", line)) or _let_go(work, run, wait, hold_s)
    if stuck:
        _quarantine(work, stuck)
        return
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        delete_candidates_objects(work.kube(), run)
    work.failpoint("revert-before-status")
    residue = _residue_after(work, run, wait, hold_s)
    _finish(work, residue, version=work.kube().newest_version())


def _keep_agents(run: FaultRun, now: datetime) -> None:
    """Let an environment's node agents stay while a fault can be taken back by them alone. Raises ClusterError.

    A fault may wait for a person, whose command is a call to its agent. Past its deadline it has ended by itself.
    """
    if selectors.agents_of(run) is None:
        return
    others = FaultRun.objects.filter(cluster=run.cluster_id, deadline__gt=now).exclude(pk=run.pk)
    calls = Step.objects.filter(run__in=others, kind__in=AGENT_KINDS).exclude(status=Step.Status.REVERTED)
    if step := calls.first():
        words = f"The node agents stay until the {step.kind} fault of {step.target['name']} is taken back."
        raise ClusterError(words, retryable=True)


def _is_gone(cluster: Cluster) -> bool:
    """Return whether the cluster was dropped with all that was in it; its host is asked, not our own record."""
    return policy_of(cluster).may_be_dropped and not practice.exists(cluster.name)


def _let_go(work: Work, run: FaultRun, wait: Wait, hold_s: float) -> list[Stuck]:
    """Wait until all that was deleted has gone, the journal's copy last; return what a person must help with."""
    work.report(*LETTING_GO)
    journal = work.journal()
    if stuck := _settle(work, run, partial(journal.records), wait, hold_s):
        return stuck
    try:
        closed = journal.close()
    except JournalError as exc:
        if exc.retryable:
            raise
        return [Stuck(exc.target, exc.message, exc.command)]
    return _settle(work, run, lambda: closed, wait, hold_s)


def _settle(work: Work, run: FaultRun, records: Records, wait: Wait, hold_s: float) -> list[Stuck]:
    since = run.settling_at or work.now()
    guard = partial(work.beat, *LETTING_GO)
    left = settle(work.kube(), records(), ACTIONS, wait=wait, guard=guard, patience_s=hold_s)
    if not left:
        return []
    what = f"{left[0]} is still being deleted"
    _wait_longer(work, since, max(hold_s, (work.now() - since).total_seconds()), SETTLE_PATIENCE_S, what)
    lines = strip_finalizers(work.kube(), records(), ACTIONS, _own_namespaces(run))
    for line in lines:
        work.report("Reverting", line)
    if lines and not (left := settle(work.kube(), records(), ACTIONS, wait=wait, guard=guard, patience_s=hold_s)):
        return []
    stuck = held(work.kube(), records(), ACTIONS)
    return stuck or [Stuck(left[0], "is still being deleted", "kubectl get events -A")]


def _own_namespaces(run: FaultRun) -> list[str]:
    """Return the namespaces that the run's session made: all in them is the session's, and goes with it."""
    is_environment = run.purpose == FaultRun.Purpose.ENVIRONMENT
    session = run if is_environment else selectors.environment_beside(run)
    return selectors.all_namespaces_of(session) if session else []


def _wait_longer(work: Work, since: datetime, waited_s: float, patience_s: float, what: str) -> None:
    """Give the lane up and come back, unless that has been done for long enough."""
    work.update(settling_at=since)
    if waited_s < patience_s:
        raise NotYet(what)


def _quarantine(work: Work, stuck: list[Stuck]) -> None:
    work.note_failure(
        "\n".join(f"{entry.target}: {entry.reason}" for entry in stuck),
        status=Status.QUARANTINED,
        phase="Needs you",
        manual_command="\n".join(entry.command for entry in stuck),
        residue=[f"{entry.target} could not be reverted" for entry in stuck],
    )


@transaction.atomic
def _finish(work: Work, residue: list[str], *, dropped: bool = False, version: int = 0) -> None:
    work.update(
        status=Status.REVERTED,
        reverted_at=work.now(),
        residue=residue,
        phase="Dropped" if dropped else "Reverted",
        detail="",
        error="",
        manual_command="",
        attempts=0,
        tried_at=None,
        next_try_at=None,
        settling_at=None,
        reverted_version=version,
        dropped=dropped,
    )
    _end_injected_fault(work)
    Step.objects.filter(run_id=work.run_id).exclude(status=Step.Status.REVERTED).update(
        status=Step.Status.REVERTED, outcome="gone with its cluster", reverted_at=work.now()
    )


def _end_injected_fault(work: Work) -> None:
    fault = InjectedFault.objects.filter(run_id=work.run_id, recovered_at__isnull=True).select_related("run").first()
    if fault is not None:
        fault.recovered_at = work.now()
        fault.save(update_fields=["recovered_at"])
        fault_signals.ended.send(InjectedFault, fault=fault)


def _residue_after(work: Work, run: FaultRun, wait: Wait, hold_s: float) -> list[str]:
    """Look until nothing is left, or for long enough: deletions may still be under way."""
    since = run.settling_at or work.now()
    waited = 0.0
    while (residue := _residue(work, run)) and waited < min(RESIDUE_PATIENCE_S, hold_s):
        work.beat(*LETTING_GO)
        wait(LOOK_S)
        waited += LOOK_S
    if residue:
        total = max(waited, (work.now() - since).total_seconds())
        _wait_longer(work, since, total, RESIDUE_PATIENCE_S, residue[0])
    return residue


def _residue(work: Work, run: FaultRun) -> list[str]:
    """Return what is left of a run.

    An environment is the whole world of its session: everything has to be as before it. A fault answers for its own
    steps and what descends from them; what the candidate made and changed meanwhile is theirs, and goes with the
    environment.
    """
    kube, namespaces = work.kube(), selectors.all_namespaces_of(run)
    if run.purpose == FaultRun.Purpose.ENVIRONMENT:
        before, after = run.fingerprint_before or {}, fingerprint(kube, [*namespaces, *watched_namespaces(run)])
        after |= known_before(before, controlled_objects(run))
        ours = partial(_of_session, run=run)
        return [_with_command(line) for line in compare(ours(before), ours(after))]
    left = [f"{record.target} still holds an injected value" for record in work.engine().leftovers()]
    for namespace in namespaces:
        left += [
            f"{obj['kind']} {namespace}/{obj['metadata']['name']} is left over" for obj in orphans(kube, namespace)
        ]
    return left


def _with_command(difference: str) -> str:
    """Return a difference with the command by which a person removes what is left over."""
    target = left_over(difference)
    return f"{difference}; run: kubectl delete {kubectl_name(target)}" if target else difference


def _of_session(picture: Fingerprint, *, run: FaultRun) -> Fingerprint:
    """Return the part of a fingerprint that only this session changes: on a shared cluster, its own namespaces."""
    copies = {f"v1/Namespace {NAMESPACE}"} if _others_have_copies(run) else set()
    if policy_of(run.cluster).is_exclusive:
        return {key: digest for key, digest in picture.items() if key not in copies}
    names = selectors.all_namespaces_of(run)
    kept = tuple(f" {name}/" for name in names)
    own = {f"v1/Namespace {name}" for name in names}
    return {key: digest for key, digest in picture.items() if key in own or any(part in key for part in kept)}


def _others_have_copies(run: FaultRun) -> bool:
    """Return whether other runs of the cluster keep the namespace of the journals' copies."""
    others = FaultRun.objects.filter(cluster=run.cluster_id, mirrored_deadline__isnull=False).exclude(pk=run.pk)
    return others.exclude(status=Status.REVERTED).exists()
