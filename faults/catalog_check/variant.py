"""The proof of one variant: broken as said, found, repaired by every solution and by nothing else, and gone again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from faults import checks, selectors, services
from faults.catalog_check import readable, turns
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene
from faults.catalog_check.stage import HOLDER, Stage, open_stage
from faults.errors import ClusterError, FaultError, Unreachable
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import ScenarioVersion
from faults.packs import Pack, PackError, Solution, WrongTurn

WATCHED_S = 5.0
"""A wrong turn has to stay one for so long."""
REPAIR_LOOK_S = 0.5
HOLD_LOOKS = 2
MIN_TEXTS = 20
SLOWEST_S = 120.0
MAX_TRIES = 3
FAILURES = (ProofFailed, PackError, ClusterError, FaultError)


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
    """Prove the variant of that number, from 1, in practice clusters of that name, which are dropped at the end.

    A ``sample`` leaves out the wrong turns that the cluster lets the candidate take: each needs the fault anew.
    """
    pack = selectors.pack_of(version)
    proof = VariantProof(pack.slug, number, pack.variants[number - 1])
    if not pack.checks:
        return proof  # it is only spoken about
    for number_of_try in range(1, MAX_TRIES + 1):
        proof = VariantProof(pack.slug, number, pack.variants[number - 1])
        try:
            with ExitStack() as stack:
                Prover(version, proof, f"{name}-{number_of_try}", stack).run(sample=sample)
        except FAILURES as exc:
            proof.error = str(exc)
            if isinstance(exc, Unreachable):
                continue  # says nothing about the pack: the machine was too busy to answer
        break
    return proof


class Prover:
    """Plays one variant; each route begins with the fault injected anew.

    Routes share a cluster until one has changed what the end of a session leaves alone.
    """

    def __init__(self, version: ScenarioVersion, proof: VariantProof, name: str, stack: ExitStack) -> None:
        self.version, self.proof, self.name, self.stack = version, proof, name, stack
        self.pack = selectors.pack_of(version).bind(parameters=proof.values)
        self.stages = 0
        self.stage = self._open_stage()

    def run(self, *, sample: bool) -> None:
        """Prove everything, or a sample of it. Raises ProofFailed, PackError, ClusterError and FaultError."""
        with self._broken("the fault", repaired=False) as scene:
            self._check_unread(scene.pack)
            for turn in scene.pack.wrong_turns:
                if turn.refused:
                    self._play(scene, turn)
        for number, solution in enumerate(self.pack.solutions):
            with self._broken(f"solution {solution.key}") as scene:
                self._repair(scene, scene.pack.solutions[number])
        for number, turn in enumerate(() if sample else self.pack.wrong_turns):
            if not turn.refused:
                with self._broken(f"wrong turn {turn.route.key}") as scene:
                    self._play(scene, scene.pack.wrong_turns[number])

    def _open_stage(self) -> Stage:
        """Give a fresh cluster in place of the one before, if any, whose session ends."""
        self.stack.close()
        self.stages += 1
        name = f"{self.name}-{self.stages}"
        return self.stack.enter_context(open_stage(self.version, self.pack, self.proof.values, name))

    @contextmanager
    def _broken(self, what: str, *, repaired: bool = True) -> Iterator[Scene]:
        """Inject the fault, give it for a route, and take it back; nothing of the fault may be left."""
        try:
            scene = self._inject()
            yield scene
            self.stage.take_back(scene.run)
            if not repaired and (left := self.stage.differences()):
                raise ProofFailed(f"taking it back does not restore the cluster: {'; '.join(left)}")
            if not self.stage.tidy():
                self.stage = self._open_stage()
        except ProofFailed as exc:
            raise ProofFailed(f"{what}: {exc}") from exc

    def _inject(self) -> Scene:
        """Break the cluster, and see the symptom within the pack's time."""
        scene = Scene(self.stage.plan(), self.stage.access.kubeconfig, self.stage.clock)
        if not self.proof.texts:
            self._check_fresh(scene)
        services.inject_run(run_id=scene.run.pk, holder=HOLDER)
        if self.pack.symptom:  # a task without a fault begins as the cluster is
            self._check_symptom(scene)
        return scene

    def _check_fresh(self, scene: Scene) -> None:
        if passing := scene.passing_checks(scene.look()):
            raise ProofFailed(f"before the fault is there, these checks pass already: {passing}")
        if self.pack.symptom and not scene.lacking_symptom():
            raise ProofFailed("before the fault is there, its symptom shows already")

    def _check_symptom(self, scene: Scene) -> None:
        took = scene.until(scene.lacking_symptom, patience_s=SLOWEST_S)
        if took > self.pack.symptom_seconds:
            raise ProofFailed(f"its symptom took {took:.1f} s; symptom_seconds says {self.pack.symptom_seconds:g}")
        self.proof.symptom_s = max(self.proof.symptom_s, took)
        seen = scene.look()
        if passing := scene.passing_checks(seen):
            raise ProofFailed(f"nothing is repaired, but these checks pass: {passing}")
        if broken := scene.broken_guards(seen):
            raise ProofFailed(f"nobody has done anything, but these guards break: {broken}")

    def _check_unread(self, pack: Pack) -> None:
        access = self.stage.access
        kube = Kube(parse(access.kubeconfig))
        try:
            texts = [*readable.given(pack), *readable.reachable(kube, access, self.stage.readable_namespaces)]
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

        began = scene.clock.now()
        scene.act(solution)
        scene.until(lacking, REPAIR_LOOK_S)
        self.proof.fixed_s[solution.key] = (scene.clock.now() - began).total_seconds()
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
                held[check.key] = checks.hold(held.get(check.key), verdict, scene.clock.now(), check.hold)
            scene.clock.wait(longest / HOLD_LOOKS)
        if late := [key for key, state in held.items() if state.held_at is None]:
            raise ProofFailed(f"these checks pass and do not come to hold: {', '.join(late)}")

    def _play(self, scene: Scene, turn: WrongTurn) -> None:
        turns.play(scene, turn, watched_s=0 if turn.refused else WATCHED_S)
        self.proof.turns.append(turn.route.key)
