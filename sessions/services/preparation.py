"""Getting ready: a cluster, its namespaces and the candidate's identity, the faults, and proof of their symptoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.db import transaction

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.clock import RealClock
from faults.errors import FaultError, NotFound, NotYet
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import Pack
from faults.toolbox import NAMESPACE
from sessions import clock, events
from sessions.models import InterviewSession, SessionScenario
from sessions.services import phases
from sessions.services.deadlines import move_deadlines
from sessions.services.phases import Work
from sessions.services.rows import State, locked, move
from sessions.variants import own_namespace, real_namespaces, variant_seed

TAKEN_BACK = (
    "What was prepared was taken back, by a panic stop or at its deadline. Call this session off and make a new one."
)
SYMPTOM_SECONDS = 60.0
SLACK = timedelta(seconds=10)  # to prepare takes less, mostly; the start moves the deadlines in any case
TOOLBOX_PATIENCE = timedelta(seconds=60)  # for its image to be pulled; candidates can do without
PROOF_SECONDS = 600  # the shortest life that a TokenRequest grants


def plan_phases(session: InterviewSession) -> None:
    """Write the phases down. A session in which everything is spoken needs no cluster, and so has none."""
    rows = list(session.scenarios.select_related("scenario_version__scenario"))
    if not session_packs(session):
        return
    phases.add(
        session,
        [
            ("cluster", "Practice cluster" if session.tier == Cluster.Tier.PRACTICE else "Cluster"),
            ("environment", "Namespaces and access rights"),
            *injection_phases(row.scenario_version for row in rows if row.stage_id is None),
            ("access", "The candidate's access"),
        ],
    )


def injection_phases(versions: Iterable[ScenarioVersion]) -> list[tuple[str, str]]:
    """Return the phases that inject scenarios, and then those that prove them.

    A task is given its names, and there is nothing to prove; what is spoken about needs nothing.
    """
    found = [(version, fault_selectors.pack_of(version)) for version in versions]
    words = {"fault": "Inject", "task": "Choose the variant"}
    return [
        *(
            (f"inject:{version.scenario.slug}", f"{words[pack.exercise]}: {version.title}")
            for version, pack in found
            if pack.exercise in words
        ),
        *(
            (f"symptom:{version.scenario.slug}", f"Confirm the symptom: {version.title}")
            for version, pack in found
            if pack.has_fault
        ),
    ]


def is_proven(scenario: SessionScenario) -> bool:
    """Whether a scenario is there to be worked on: its symptom stands confirmed, where it has one."""
    pack, run = fault_selectors.pack_of(scenario.scenario_version), scenario.run
    if pack.is_spoken:
        return True
    return run is not None and run.status == FaultRun.Status.ACTIVE and bool(run.symptom_at or not pack.has_fault)


def run_preparation(*, session_id: int) -> None:
    """Do what is left of a session's preparation, and make it ready. Safe to repeat at any moment."""
    if phases.run(session_id, WORKERS, lambda session: session.state == State.PREPARING):
        _become_ready(session_id)


def session_packs(session: InterviewSession) -> list[Pack]:
    """Return the packs of a session's scenarios that need a cluster, in order."""
    scenarios = session.scenarios.select_related("scenario_version").defer("scenario_version__files")
    found = (fault_selectors.pack_of(scenario.scenario_version) for scenario in scenarios)
    return [pack for pack in found if not pack.is_spoken]


def session_namespaces(session: InterviewSession, packs: Iterable[Pack]) -> dict[str, str]:
    """Return the union of the packs' namespaces: logical name -> real name."""
    union: dict[str, str] = {}
    for pack in packs:
        for logical, real in real_namespaces(session, pack).items():
            union[logical if union.get(logical, real) == real else real] = real
    return union


def _toolbox_namespace(session: InterviewSession) -> str:
    return NAMESPACE if session.tier != Cluster.Tier.SHARED else own_namespace(session, NAMESPACE)


def _cluster(work: Work) -> None:
    session = work.session
    if session.tier != Cluster.Tier.PRACTICE:
        cluster = _cluster_of(session)
        fault_services.lease_cluster(cluster=cluster, holder=session.uuid)
        fault_services.require_inventory(cluster=cluster, packs=session_packs(session))
        work.report("cluster", f"Using {cluster}")
        return
    work.report("cluster", "Asking for a fresh cluster")
    latest = (session.prepared_at or clock.now()) + clock.LONGEST_FAULT + clock.GRACE
    # The name shows in the candidate's kubeconfig, so that it says nothing.
    name, packs = f"gpu-{session.uuid.hex[:12]}", session_packs(session)
    cluster = fault_services.ensure_practice_cluster(name=name, deadline=latest, packs=packs)
    InterviewSession.objects.filter(pk=session.pk).update(cluster=cluster)


def _environment(work: Work) -> None:
    packs = session_packs(work.session)
    run = _environment_run(work.session, packs, toolbox_gpu=_toolbox_gpu(work.session, packs))
    inject(run, work)


def _toolbox_gpu(session: InterviewSession, packs: Sequence[Pack]) -> bool:
    """Ask the cluster for the toolbox's GPU, before any row is locked."""
    if session.environment_id is not None:
        return False  # it is planned already
    return fault_services.has_gpu_for_toolbox(cluster=_cluster_of(session), packs=packs)


@transaction.atomic
def _environment_run(session: InterviewSession, packs: Sequence[Pack], *, toolbox_gpu: bool) -> FaultRun:
    session = locked(session)
    if session.environment is None:
        session.environment = fault_services.plan_environment_run(
            cluster=_cluster_of(session),
            namespaces=session_namespaces(session, packs),
            deadline=clock.fault_deadline(session),
            packs=packs,
            access=[rule for pack in packs for rule in pack.access_of_every_variant(real_namespaces(session, pack))],
            toolbox_namespace=_toolbox_namespace(session),
            toolbox_gpu=toolbox_gpu,
        )
        session.save(update_fields=["environment"])
    return session.environment


def require_environment(session: InterviewSession) -> FaultRun:
    """Return the session's environment. One that was taken back does not return: its cluster may be gone, too."""
    assert session.environment_id is not None  # the environment phase is done
    environments = FaultRun.objects.select_related("cluster").defer("fingerprint_before")
    environment = environments.get(pk=session.environment_id)
    if environment.reverted_at is not None:
        raise FaultError(TAKEN_BACK)
    return environment


def inject_fault(work: Work) -> None:
    """Inject the fault of a phase's scenario."""
    cluster, scenario = require_environment(work.session).cluster, work.scenario()
    run = plan_run(work.session, scenario, cluster_values(cluster, work.session, scenario))
    try:
        inject(run, work)
    except NotFound:  # the cluster has come back from a snapshot, and has forgotten what was made a moment ago
        environment = work.session.environment
        assert environment is not None  # its phase is done
        fault_services.restore_access(run=environment)
        inject(run, work)


def cluster_values(cluster: Cluster, session: InterviewSession, scenario: SessionScenario) -> dict[str, str]:
    """Ask the cluster for what it decides of a scenario without a run, before any row is locked."""
    if scenario.run is not None:
        return {}
    pack = fault_selectors.pack_of(scenario.scenario_version)
    return fault_services.cluster_values(cluster=cluster, pack=pack, seed=variant_seed(session.uuid))


@transaction.atomic
def plan_run(session: InterviewSession, scenario: SessionScenario, values: dict[str, str] | None = None) -> FaultRun:
    """Return the scenario's run, planned where there is none yet with these values of the cluster.

    The cluster is asked for them where they are not given.
    """
    session = locked(session)
    if scenario.run is None:
        scenario.run = fault_services.plan_fault_run(
            cluster=_cluster_of(session),
            scenario_version=scenario.scenario_version,
            namespaces=real_namespaces(session, fault_selectors.pack_of(scenario.scenario_version)),
            parameters={},
            seed=variant_seed(session.uuid),
            deadline=clock.fault_deadline(session),
            values=values,
        )
        scenario.save(update_fields=["run"])
    return scenario.run


def inject(run: FaultRun, work: Work) -> None:
    """Make the changes of a run."""
    fault_services.inject_run(run_id=run.pk, holder=work.holder, now=clock.now(), report=work.report)


def confirm_symptom(work: Work) -> None:
    """Look until the symptoms of a phase's scenario show."""
    require_environment(work.session)
    run = work.scenario().run
    assert run is not None  # the inject phase of this scenario is done
    run = fault_services.confirm_symptom(
        run_id=run.pk,
        holder=work.holder,
        clock=RealClock(),
        timeout_s=fault_selectors.symptom_patience_s(run, SYMPTOM_SECONDS),
        hold_s=phases.HOLD_S,
        report=work.report,
    )
    if run.status != FaultRun.Status.ACTIVE:
        raise FaultError(run.error or "The symptom was not seen. Try again.")


def _access(work: Work) -> None:
    environment = require_environment(work.session)
    missing = fault_services.missing_toolbox(run=environment, hold_s=phases.HOLD_S)
    if missing and clock.now() < (work.phase.started_at or clock.now()) + TOOLBOX_PATIENCE:
        raise NotYet(f"Waiting for the toolbox: {missing}")
    work.report("access", "Asking for the candidate's credentials")
    access = fault_services.candidate_access(run=environment, seconds=PROOF_SECONDS)
    lack = f"; the toolbox does not run: {missing}" if missing else ""
    work.report("access", f"{access.username} may work in {access.namespace}{lack}")


def _cluster_of(session: InterviewSession) -> Cluster:
    if session.cluster is None:
        raise FaultError("The session has no cluster yet. Prepare it again.")
    return session.cluster


@transaction.atomic
def _become_ready(session_id: int) -> None:
    session = locked(session_id)
    if session.state != State.PREPARING:
        return
    move(session, [State.PREPARING], State.READY)
    move_deadlines(session, clock.now(), SLACK)
    took = clock.now() - (session.prepared_at or clock.now())
    events.append(session, "session.ready", payload={"seconds": round(took / timedelta(seconds=1), 3)})


WORKERS: dict[str, phases.Worker] = {
    "cluster": _cluster,
    "environment": _environment,
    "inject": inject_fault,
    "symptom": confirm_symptom,
    "access": _access,
}
