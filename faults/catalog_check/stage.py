"""A practice cluster with a session's environment in it, in which routes are played one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from faults import clock, selectors, services
from faults.catalog_check.cleaning import clean
from faults.catalog_check.cluster_clock import ClusterClock
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.existing import ExistingObjects
from faults.engine import Fingerprint, compare, fingerprint
from faults.errors import Unreachable
from faults.kube.client import Kube
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import Pack
from faults.services import CandidateAccess

HOLDER = "catalog-check"
LIFETIME = timedelta(hours=1)
TOKEN_S = 24 * 3600
"""Of the cluster's time, which is moved on by minutes."""
MAX_TRIES = 6
DELETION_LOOK_S = 2.0


@dataclass
class Stage:
    """A cluster as it is before the fault. ``pack`` is bound to a variant, whose values are ``parameters``."""

    version: ScenarioVersion
    pack: Pack
    parameters: Mapping[str, str]
    cluster: Cluster
    clock: ClusterClock
    environment: FaultRun
    access: CandidateAccess
    before: Fingerprint
    existing: ExistingObjects

    @property
    def kube(self) -> Kube:
        """The cluster's client, with every right."""
        return selectors.kube_for(self.cluster)

    @property
    def namespaces(self) -> list[str]:
        """The session's own namespaces."""
        return list(dict.fromkeys(self.pack.namespaces.values()))

    @property
    def seen_namespaces(self) -> list[str]:
        """The namespaces in which the pack reads or changes objects."""
        return [*self.namespaces, *self.pack.existing]

    @property
    def readable_namespaces(self) -> list[str]:
        """The namespaces in which the candidate may read, that of the toolbox among them."""
        return list(dict.fromkeys([*selectors.all_namespaces_of(self.environment), *self.pack.existing]))

    def plan(self) -> FaultRun:
        """Plan the fault once more."""
        return _plan(self.version, self.pack, self.parameters, self.cluster)

    def differences(self) -> list[str]:
        """Return what is not as it was before the fault."""
        return compare(self.before, fingerprint(self.kube, self.seen_namespaces))

    def take_back(self, run: FaultRun) -> None:
        """Revert a fault. Raises ProofFailed where something is left of it."""
        expect_nothing_left("the fault", services.revert_run(run_id=run.pk, holder=HOLDER, wait=self.wait))

    def tidy(self) -> bool:
        """Delete what the candidate made; False where they have changed what the end of a session leaves alone."""
        self.existing.put_back()
        return clean(self.kube, self.differences(), self.namespaces, self.clock)

    def wait(self, seconds: float) -> None:
        """Wait for what is being deleted; pods may take their grace."""
        self.clock.wait(max(seconds, DELETION_LOOK_S))


@contextmanager
def open_stage(version: ScenarioVersion, pack: Pack, parameters: Mapping[str, str], name: str) -> Iterator[Stage]:
    """Make a cluster and an environment for the pack; see at the end that nothing is left of the session."""
    with _practice_cluster(name, pack) as cluster:
        namespaces, packs = dict(pack.namespaces), [pack]
        planned = services.plan_environment_run(
            cluster=cluster,
            namespaces=namespaces,
            deadline=_deadline(),
            packs=packs,
            toolbox_gpu=services.has_gpu_for_toolbox(cluster=cluster, packs=packs),
        )
        environment = services.inject_run(run_id=planned.pk, holder=HOLDER)
        services.grant_rights(run=_plan(version, pack, parameters, cluster))
        access = services.candidate_access(run=environment, seconds=TOKEN_S)
        existing = ExistingObjects(selectors.kube_for(cluster), pack)
        clock_of = ClusterClock(cluster.name)
        stage = Stage(version, pack, parameters, cluster, clock_of, environment, access, {}, existing)
        stage.before = fingerprint(stage.kube, stage.seen_namespaces)
        yield stage
        ended = services.revert_run(run_id=environment.pk, holder=HOLDER, wait=stage.wait)
        expect_nothing_left("the session", ended)


def expect_nothing_left(what: str, run: FaultRun) -> None:
    """Raise ProofFailed where a run was not taken back, or where something is left of it."""
    if run.status != FaultRun.Status.REVERTED or run.residue:
        raise ProofFailed(f"{what} is {run.status} and leaves {run.residue or run.error}")


def _plan(version: ScenarioVersion, pack: Pack, parameters: Mapping[str, str], cluster: Cluster) -> FaultRun:
    return services.plan_fault_run(
        cluster=cluster,
        scenario_version=version,
        namespaces=dict(pack.namespaces),
        parameters=parameters,
        seed=0,
        deadline=_deadline(),
    )


def _deadline() -> datetime:
    return clock.now() + LIFETIME


@contextmanager
def _practice_cluster(name: str, pack: Pack) -> Iterator[Cluster]:
    """Give a cluster that the pack can have; a host that has only just started may not answer in time."""
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            cluster = services.ensure_practice_cluster(name=name, deadline=_deadline(), packs=[pack], skips=True)
            break
        except Unreachable:
            if not tries_left:
                raise
    try:
        yield cluster
    finally:
        services.release_cluster(cluster=cluster)
