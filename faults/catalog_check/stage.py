"""A practice cluster with a session's environment in it, in which routes are played one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from faults import clock, environment, practice, selectors, services
from faults.catalog_check import nvsentinel_records
from faults.catalog_check.cluster_clock import ClusterClock
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.readable import Readable
from faults.catalog_check.run_rows import RunRows
from faults.catalog_check.snapshot import Snapshot
from faults.catalog_check.writable import WritableObjects
from faults.engine import Fingerprint, compare, fingerprint
from faults.errors import ClusterError
from faults.kube.client import Kube
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import AccessRule, Pack
from faults.services import CandidateAccess, ToolboxShell

T = TypeVar("T")
HOLDER = "catalog-check"
LIFETIME = timedelta(hours=1)
TOKEN_S = 24 * 3600
"""Of the cluster's time, which is moved on by minutes."""
MAX_TRIES = 6
DELETION_LOOK_S = 2.0
PATIENCE_S = 120.0
"""Of the cluster's time, for nodes to have their devices again."""
RATION_S = 4.0
"""Until a candidate who has spent all of their share of requests has it again."""
RETRY_S = 8.0
"""Of the cluster's time, between two tries to inject a fault that waits for a program whose time is not known yet."""
RECOVERY_S = 60.0
"""Before a variant: what Prometheus has of a new cluster, or has lost to the variant before, is there by then."""
FORGETTING_S = 660.0
"""Before a variant that breaks nodes: kubelets no longer know how often the one before restarted their pods."""


@dataclass
class Stage:
    """A cluster as it is before the fault, and the candidate in it.

    ``pack`` is bound to a variant, whose values are ``parameters``; another one with the same rights can follow it.
    """

    version: ScenarioVersion
    pack: Pack
    parameters: Mapping[str, str]
    rights: Sequence[AccessRule]
    cluster: Cluster
    clock: ClusterClock
    environment: FaultRun
    access: CandidateAccess
    shell: ToolboxShell
    before: Fingerprint = field(init=False)
    _waited_s: dict[str, float] = field(init=False, default_factory=dict)
    """For how long the fault of a variant had to wait for a program."""

    def __post_init__(self) -> None:
        self.before = fingerprint(self.kube, self.seen_namespaces)
        rails, box = selectors.guardrails_of(self.environment), selectors.toolbox_of(self.environment)
        rules = environment.all_rules(self.namespaces, rails, box)
        self._writable = WritableObjects(self.kube, rules, self.namespaces)
        self._unbroken = self.snapshot()
        self._devices = self._devices_now()
        pause = partial(self.clock.wait, RATION_S)
        self.readable = Readable(self.shell.kube, self.access, self._readable_namespaces(), pause)

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

    def fits(self, version: ScenarioVersion, pack: Pack, parameters: Mapping[str, str]) -> bool:
        """Return whether another variant can be played here: nobody has more rights than its pack gives.

        Rights may name nodes, which are chosen when a variant is planned.
        """
        if version != self.version:
            return False
        return selectors.bound_pack(_plan(version, pack, parameters, self.cluster)).access == self.rights

    def plan(self) -> FaultRun:
        """Plan the fault once more."""
        return _plan(self.version, self.pack, self.parameters, self.cluster)

    def differences(self) -> list[str]:
        """Return what is not as it was before the fault."""
        return compare(self.before, fingerprint(self.kube, self.seen_namespaces))

    def inject(self, run: FaultRun) -> None:
        """Inject a planned fault, with one pause where its program is known to need some. Raises ClusterError."""
        began, known_s = self.clock.now(), self._waited_s.get(str(self.parameters), 0.0)

        def waited() -> float:
            return (self.clock.now() - began).total_seconds()

        with_patience(
            lambda: services.inject_run(run_id=run.pk, holder=HOLDER),
            pause=lambda: self.clock.wait(max(RETRY_S, known_s - waited())),
        )
        self._waited_s[str(self.parameters)] = waited()

    def take_back(self, run: FaultRun) -> None:
        """Revert a fault. Raises ProofFailed where something is left of it."""
        expect_nothing_left("the fault", self._revert(run))
        if nvsentinel_records.ADDON in self.pack.requires.addons:
            nvsentinel_records.let_finish(self.kube, self.clock)

    def snapshot(self) -> Snapshot:
        """Return what the candidate may change, as it is now."""
        return Snapshot(self.kube, self._writable, self.namespaces)

    @contextmanager
    def copied(self) -> Iterator[ToolboxShell]:
        """Give the cluster back as it is now when the block ends; yields the toolbox inside of it.

        What was brought into the toolbox inside of the block is gone afterwards.
        """
        rows = RunRows(self.cluster)
        with_patience(lambda: practice.checkpoint(self.cluster.name))
        yield self.shell.copy()
        practice.rollback(self.cluster.name)
        rows.write_back()

    def tidy(self) -> None:
        """Take back what the candidate made and changed, before another fault. Raises ProofFailed.

        Then a node's device plugin may still be starting, and without its GPUs the node would not be chosen again.
        """
        self._unbroken.bring_back(self.clock)
        waited = 0.0
        while (lacking := self._devices.items() - self._devices_now().items()) and waited < PATIENCE_S:
            self.clock.wait(DELETION_LOOK_S)
            waited += DELETION_LOOK_S
        if lacking:
            raise ProofFailed(f"nodes do not get their devices back: {sorted(lacking)}")

    def forget(self, seconds: float) -> None:
        """Let the end of a variant be so long ago, and delete its events, which its own proof has read."""
        self.clock.wait(seconds)
        for namespace in self._readable_namespaces():
            self.kube.delete_all("v1", "Event", namespace)

    def wait(self, seconds: float) -> None:
        """Wait for what is being deleted; pods may take their grace."""
        self.clock.wait(max(seconds, DELETION_LOOK_S))

    def end_session(self) -> None:
        """Take the environment back. Raises ProofFailed where something is left of the session."""
        expect_nothing_left("the session", self._revert(self.environment))

    def _devices_now(self) -> dict[tuple[str, str], str]:
        """Return how many devices of each kind every node has to give."""
        return {
            (node["metadata"]["name"], device): count
            for node in self.kube.list("v1", "Node")
            for device, count in node["status"]["allocatable"].items()
            if "/" in device
        }

    def _revert(self, run: FaultRun) -> FaultRun:
        return with_patience(lambda: services.revert_run(run_id=run.pk, holder=HOLDER, wait=self.wait))

    def _readable_namespaces(self) -> list[str]:
        """Return the namespaces in which the candidate may read, that of the toolbox among them."""
        return list(dict.fromkeys([*selectors.all_namespaces_of(self.environment), *self.pack.existing]))


@contextmanager
def open_stage(version: ScenarioVersion, pack: Pack, parameters: Mapping[str, str], name: str) -> Iterator[Stage]:
    """Make a cluster and an environment for the pack; the cluster is dropped at the end."""
    with _practice_cluster(name, pack) as cluster:
        planned = services.plan_environment_run(
            cluster=cluster,
            namespaces=dict(pack.namespaces),
            deadline=_deadline(),
            packs=[pack],
            toolbox_gpu=services.has_gpu_for_toolbox(cluster=cluster, packs=[pack]),
        )
        session = with_patience(lambda: services.inject_run(run_id=planned.pk, holder=HOLDER))
        run = _plan(version, pack, parameters, cluster)
        services.grant_rights(run=run)
        session.refresh_from_db()
        access = services.candidate_access(run=session, seconds=TOKEN_S)
        time = ClusterClock(cluster.name)
        entered = services.candidate_shell(run=run, kubeconfig=access.kubeconfig, clock=time, meanwhile=time.passing)
        with entered as shell:
            rights = selectors.bound_pack(run).access
            yield Stage(version, pack, parameters, rights, cluster, time, session, access, shell)


class Stages:
    """One stage after another: each is kept until a variant needs other rights."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._stack = ExitStack()
        self._stage: Stage | None = None

    def stage_for(self, version: ScenarioVersion, pack: Pack, parameters: Mapping[str, str]) -> Stage:
        """Return the stage for a variant. Raises ProofFailed where the session before leaves something."""
        recovery_s = FORGETTING_S if pack.requires.agent else RECOVERY_S
        if self._stage is not None:
            self._stage.forget(recovery_s)
        if self._stage is None or not self._stage.fits(version, pack, parameters):
            self.close()
            self._number += 1
            opened = open_stage(version, pack, parameters, f"{self._name}-{self._number}")
            self._stage = self._stack.enter_context(opened)
            self._stage.clock.wait(recovery_s)
        self._stage.pack, self._stage.parameters = pack, parameters
        return self._stage

    def close(self) -> None:
        """End the session, if any. Raises ProofFailed where something is left of it."""
        try:
            if self._stage is not None:
                self._stage.end_session()
        finally:
            self.discard()

    def discard(self) -> None:
        """Drop the cluster, if any, with whatever is in it."""
        self._stage = None
        self._stack.close()


def with_patience(work: Callable[[], T], pause: Callable[[], object] = lambda: None) -> T:
    """Do again, as a worker does, what can be done again and was not answered. Raises ClusterError.

    ``pause`` comes before each further try: a fault may wait for a program to run.
    """
    for _ in range(MAX_TRIES - 1):
        try:
            return work()
        except ClusterError as exc:
            if not exc.retryable:
                raise
        pause()
    return work()


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
    ensure = partial(services.ensure_practice_cluster, name=name, deadline=_deadline(), packs=[pack], skips=True)
    cluster = with_patience(ensure)
    try:
        yield cluster
    finally:
        services.release_cluster(cluster=cluster)
