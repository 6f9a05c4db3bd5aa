"""The proof of one variant: broken as said, found, repaired by every solution and by nothing else, and gone again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faults import checks, clock, selectors, services
from faults.catalog_check import readable, turns
from faults.catalog_check.cleaning import clean
from faults.catalog_check.cluster_clock import ClusterClock
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene
from faults.engine import Fingerprint, compare, fingerprint
from faults.errors import ClusterError, FaultError, Unreachable
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun, ScenarioVersion
from faults.packs import Pack, Solution, WrongTurn

HOLDER = "catalog-check"
MAX_TRIES = 6
LIFETIME = timedelta(hours=1)
TOKEN_S = 24 * 3600
"""Of the cluster's time, which is moved on by minutes."""
WATCHED_S = 5.0
"""A wrong turn has to stay one for so long."""
REPAIR_LOOK_S, DELETION_LOOK_S = 0.5, 2.0
HOLD_LOOKS = 2
MIN_TEXTS = 20
SLOWEST_S = 120.0


@dataclass
class VariantProof:
    """Findings about one variant. Times are the cluster's; ``error`` says what does not come out as the pack says."""

    slug: str
    number: int
    values: Mapping[str, str]
    symptom_s: float = 0.0
    fixed_s: dict[str, float] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)
    texts: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether all of it is proven."""
        return not self.error


def prove(version: ScenarioVersion, number: int, *, name: str, sample: bool = False) -> VariantProof:
    """Prove the variant of that number, from 1, in a practice cluster of that name, which is dropped at the end.

    A ``sample`` leaves out the wrong turns that the cluster lets the candidate take: each needs the fault anew.
    """
    pack = selectors.pack_of(version)
    values = pack.variants[number - 1]
    proof = VariantProof(pack.slug, number, values)
    bound = pack.bind(parameters=values)
    try:
        with _practice_cluster(name, bound) as cluster:
            Prover(version, bound, cluster, proof).run(sample=sample)
    except (ProofFailed, ClusterError, FaultError) as exc:
        proof.error = str(exc)
    return proof


@contextmanager
def _practice_cluster(name: str, pack: Pack) -> Iterator[Cluster]:
    """Give a cluster that the pack can have; a host that has only just started may not answer in time."""
    for tries_left in reversed(range(MAX_TRIES)):
        try:
            deadline = clock.now() + LIFETIME
            cluster = services.ensure_practice_cluster(name=name, deadline=deadline, packs=[pack], skips=True)
            break
        except Unreachable:
            if not tries_left:
                raise
    try:
        yield cluster
    finally:
        services.release_cluster(cluster=cluster)


class Prover:
    """Plays one variant in one cluster; each route begins with the fault injected anew."""

    def __init__(self, version: ScenarioVersion, pack: Pack, cluster: Cluster, proof: VariantProof) -> None:
        self.version, self.pack, self.cluster, self.proof = version, pack, cluster, proof
        self.clock = ClusterClock(cluster.name)
        self.namespaces = list(dict.fromkeys(pack.namespaces.values()))
        self.kube = selectors.kube_for(cluster)
        self.before: Fingerprint = {}

    def run(self, *, sample: bool) -> None:
        """Prove everything, or a sample of it. Raises ProofFailed, ClusterError and FaultError."""
        environment = self._environment()
        access = services.candidate_access(run=environment, seconds=TOKEN_S)
        self.before = fingerprint(self.kube, self.namespaces)
        refused = [turn for turn in self.pack.wrong_turns if turn.refused]
        with self._broken(access.kubeconfig, "the fault", repaired=False) as scene:
            self._check_unread(access)
            for turn in refused:
                self._play(scene, turn)
        for solution in self.pack.solutions:
            with self._broken(access.kubeconfig, f"solution {solution.key}") as scene:
                self._repair(scene, solution)
        for turn in () if sample else self.pack.wrong_turns:
            if turn not in refused:
                with self._broken(access.kubeconfig, f"wrong turn {turn.route.key}") as scene:
                    self._play(scene, turn)
        _expect_nothing_left(
            "the session", services.revert_run(run_id=environment.pk, holder=HOLDER, wait=self._wait)
        )

    def _environment(self) -> FaultRun:
        run = services.plan_environment_run(
            cluster=self.cluster,
            namespaces=dict(self.pack.namespaces),
            deadline=self._deadline,
            packs=[self.pack],
        )
        run = services.inject_run(run_id=run.pk, holder=HOLDER)
        services.grant_rights(run=self._plan())
        return run

    @property
    def _deadline(self) -> datetime:
        return clock.now() + LIFETIME

    @contextmanager
    def _broken(self, kubeconfig: str, what: str, *, repaired: bool = True) -> Iterator[Scene]:
        """Inject the fault, give it for a route, and take it back; nothing of the fault may be left."""
        try:
            scene = self._inject(kubeconfig)
            yield scene
            run = services.revert_run(run_id=scene.run.pk, holder=HOLDER, wait=self._wait)
            _expect_nothing_left("the fault", run)
            if not repaired and (left := compare(self.before, fingerprint(self.kube, self.namespaces))):
                raise ProofFailed(f"taking it back does not restore the cluster: {'; '.join(left)}")
            clean(self.kube, self.before, self.namespaces, self.clock)
        except ProofFailed as exc:
            raise ProofFailed(f"{what}: {exc}") from exc

    def _plan(self) -> FaultRun:
        return services.plan_fault_run(
            cluster=self.cluster,
            scenario_version=self.version,
            namespaces=dict(self.pack.namespaces),
            parameters=self.proof.values,
            seed=0,
            deadline=self._deadline,
        )

    def _wait(self, seconds: float) -> None:
        """Wait for what is being deleted; pods may take their grace."""
        self.clock.wait(max(seconds, DELETION_LOOK_S))

    def _inject(self, kubeconfig: str) -> Scene:
        """Break the cluster, and see the symptom within the pack's time."""
        run = self._plan()
        scene = Scene(run, kubeconfig, self.clock)
        if not self.proof.symptom_s:
            self._check_fresh(scene)
        services.inject_run(run_id=run.pk, holder=HOLDER)
        took = scene.until(scene.lacking_symptom, patience_s=SLOWEST_S)
        if took > self.pack.symptom_seconds:
            raise ProofFailed(f"its symptom took {took:.1f} s; symptom_seconds says {self.pack.symptom_seconds:g}")
        self.proof.symptom_s = max(self.proof.symptom_s, took)
        self._check_broken(scene)
        return scene

    def _check_fresh(self, scene: Scene) -> None:
        if passing := scene.passing_checks(scene.look()):
            raise ProofFailed(f"before the fault is there, these checks pass already: {passing}")
        if not scene.lacking_symptom():
            raise ProofFailed("before the fault is there, its symptom shows already")

    def _check_broken(self, scene: Scene) -> None:
        seen = scene.look()
        if passing := scene.passing_checks(seen):
            raise ProofFailed(f"nothing is repaired, but these checks pass: {passing}")
        if broken := scene.broken_guards(seen):
            raise ProofFailed(f"nobody has done anything, but these guards break: {broken}")

    def _check_unread(self, access: services.CandidateAccess) -> None:
        kube = Kube(parse(access.kubeconfig))
        try:
            texts = [*readable.given(self.pack), *readable.reachable(kube, access, self.namespaces)]
        finally:
            kube.close()
        if len(texts) < MIN_TEXTS:
            raise ProofFailed(f"the candidate can read {len(texts)} texts only, which proves nothing")
        readable.refuse_tells(texts)
        self.proof.texts = len(texts)

    def _repair(self, scene: Scene, solution: Solution) -> None:
        """Repair it as the candidate: it passes, holds, and breaks no guard on the way."""

        def lacking() -> str:
            seen = scene.look()
            if broken := scene.broken_guards(seen):
                raise ProofFailed(f"guards break: {broken}")
            return scene.open_checks(seen)

        began = self.clock.now()
        scene.act(solution)
        scene.until(lacking, REPAIR_LOOK_S)
        self.proof.fixed_s[solution.key] = (self.clock.now() - began).total_seconds()
        self._hold(scene)

    def _hold(self, scene: Scene) -> None:
        """Look as the observer does until every check has held for as long as it has to."""
        held: dict[str, checks.Held] = {}
        longest = max(check.hold for check in scene.pack.checks)
        for _ in range(HOLD_LOOKS + 1):
            seen = scene.look()
            if found := scene.broken_guards(seen) or scene.open_checks(seen):
                raise ProofFailed(f"it does not hold: {found}")
            for check in scene.pack.checks:
                verdict = seen[check.key].verdict
                held[check.key] = checks.hold(held.get(check.key), verdict, self.clock.now(), check.hold)
            self.clock.wait(longest / HOLD_LOOKS)
        if late := [key for key, state in held.items() if state.held_at is None]:
            raise ProofFailed(f"these checks pass and do not come to hold: {', '.join(late)}")

    def _play(self, scene: Scene, turn: WrongTurn) -> None:
        turns.play(scene, turn, watched_s=0 if turn.refused else WATCHED_S)
        self.proof.turns.append(turn.route.key)


def _expect_nothing_left(what: str, run: FaultRun) -> None:
    if run.status != FaultRun.Status.REVERTED or run.residue:
        raise ProofFailed(f"{what} is {run.status} and leaves {run.residue or run.error}")
