"""The proof of one variant: broken as said, found, repaired by every solution and by nothing else, and gone again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from faults import checks, selectors, services
from faults.catalog_check import readable, turns
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.scene import Scene
from faults.catalog_check.snapshot import Snapshot
from faults.catalog_check.stage import Stages
from faults.catalog_check.traces import Traces
from faults.catalog_check.written_commands import WrittenCommand, follow, written_commands
from faults.errors import ClusterError, FaultError
from faults.kube.client import Obj
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
    commands: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether all of it is proven."""
        return not self.error


def prove(version: ScenarioVersion, number: int, *, stages: Stages, sample: bool = False) -> VariantProof:
    """Prove the variant of that number, from 1, on one of the ``stages``.

    A ``sample`` leaves out the wrong turns that the cluster lets the candidate take: each needs the fault anew.
    """
    pack = selectors.pack_of(version)
    proof = VariantProof(pack.slug, number, pack.variants[number - 1])
    if not pack.checks:
        return proof  # it is only spoken about
    for _ in range(MAX_TRIES):
        proof = VariantProof(pack.slug, number, pack.variants[number - 1])
        try:
            Prover(version, proof, stages).run(sample=sample)
        except FAILURES as exc:
            stages.discard()
            proof.error = str(exc)
            if isinstance(exc, ClusterError) and exc.retryable:
                continue  # says nothing about the pack: the machine was too busy to answer
        break
    return proof


def missing_images(nodes: Iterable[Obj], images: Sequence[str]) -> str:
    """Return which nodes lack which of the images, in words; a node may write a name with its registry."""
    lacking: list[str] = []
    for node in nodes:
        names = [f"/{name}" for image in node["status"].get("images") or [] for name in image["names"]]
        wanted = [image for image in images if not any(name.endswith(f"/{image}") for name in names)]
        lacking += [f"{image} on {node['metadata']['name']}" for image in wanted]
    return ", ".join(lacking)


class Prover:
    """Plays one variant: route after route, each on the fault as it was when it was new."""

    def __init__(self, version: ScenarioVersion, proof: VariantProof, stages: Stages) -> None:
        self.proof = proof
        self.pack = selectors.pack_of(version).bind(parameters=proof.values)
        self.stage = stages.stage_for(version, self.pack, proof.values)
        self._traces: Traces

    def run(self, *, sample: bool) -> None:
        """Prove everything, or a sample of it. Raises ProofFailed, PackError, ClusterError and FaultError."""
        with self._broken("the fault") as scene:
            if self.pack.workspace:
                self._play_in_copies(scene, sample=sample)
            self._check_unread(scene)
            for turn in scene.pack.wrong_turns:
                if turn.refused:
                    self._play(scene, turn)
        if left := self.stage.differences():
            raise ProofFailed(f"taking the fault back does not restore the cluster: {'; '.join(left)}")
        if self.pack.requires.agent:
            self._play_apart(sample=sample)
        elif not self.pack.workspace:
            self._play_in_turn(sample=sample)
        self.stage.tidy()

    def _play_in_copies(self, scene: Scene, *, sample: bool) -> None:
        """Play each route in a copy of the cluster, and take the fault back there: no snapshot undoes Terraform."""
        for what, play in self._routes(scene.pack, sample=sample):
            with _of(what), self.stage.copied() as shell:
                play(Scene(scene.run, shell, scene.clock))
                self.stage.take_back(scene.run)

    def _play_apart(self, *, sample: bool) -> None:
        """Play each route on a fault of its own: snapshots of objects do not undo repairs of nodes.

        A job that computes has threads, so that its cluster cannot be copied.
        """
        at, last = 0, False
        while not last:
            with self._broken("the fault once more") as scene:
                routes = list(self._routes(scene.pack, sample=sample))
                what, play = routes[at]
                with _of(what):
                    play(scene)
            self.stage.tidy()
            at, last = at + 1, at + 1 == len(routes)

    def _play_in_turn(self, *, sample: bool) -> None:
        with self._broken("the fault once more") as scene:
            snapshot = self.stage.snapshot()
            for number, (what, play) in enumerate(self._routes(scene.pack, sample=sample)):
                with _of(what):
                    if number:
                        self._break_again(scene, snapshot)
                    play(scene)

    def _routes(self, pack: Pack, *, sample: bool) -> Iterator[tuple[str, Callable[[Scene], None]]]:
        """Yield solutions, the texts and wrong turns, each with what it is called."""
        for solution in pack.solutions:
            yield f"solution {solution.key}", partial(self._solve, solution=solution)
        if commands := list(written_commands(pack)):
            yield "the brief", partial(self._follow, commands=commands)
        for turn in () if sample else pack.wrong_turns:
            if not turn.refused:
                yield f"wrong turn {turn.route.key}", partial(self._play, turn=turn)

    @contextmanager
    def _broken(self, what: str) -> Iterator[Scene]:
        """Inject the fault, give it for a route, and take it back; nothing of the fault may be left."""
        with _of(what):
            scene = Scene(self.stage.plan(), self.stage.shell, self.stage.clock)
            if not self.proof.texts:
                self._check_images()
                self._check_fresh(scene)
                self._traces = Traces(self.stage.kube, self.pack.existing)
            self.stage.inject(scene.run)
            if self.pack.symptom:  # a task without a fault begins as the cluster is
                self._check_symptom(scene)
        yield scene
        with _of(what):
            self.stage.take_back(scene.run)

    def _break_again(self, scene: Scene, snapshot: Snapshot) -> None:
        """Give the cluster back as the fault had left it."""
        snapshot.bring_back(scene.clock)
        if scene.lacking_symptom():
            scene.until(scene.lacking_symptom, patience_s=SLOWEST_S, first_s=self.proof.symptom_s)
        if not scene.open_checks(scene.look(briefly=True)):
            raise ProofFailed("it is as the fault had left it, and all checks pass")

    def _check_images(self) -> None:
        if missing := missing_images(self.stage.kube.list("v1", "Node"), self.pack.requires.images):
            raise ProofFailed(f"a candidate would wait for what nodes have to pull first: {missing}")

    def _check_fresh(self, scene: Scene) -> None:
        if passing := scene.passing_checks(scene.look()):
            raise ProofFailed(f"before the fault is there, these checks pass already: {passing}")
        if self.pack.symptom and not scene.lacking_symptom():
            raise ProofFailed("before the fault is there, its symptom shows already")

    def _check_symptom(self, scene: Scene) -> None:
        known_s = self.proof.symptom_s
        took = scene.until(scene.lacking_symptom, patience_s=SLOWEST_S, first_s=known_s)
        if took > self.pack.symptom_seconds:
            raise ProofFailed(f"its symptom took {took:.1f} s; symptom_seconds says {self.pack.symptom_seconds:g}")
        self.proof.symptom_s = max(known_s, took)
        if not known_s:
            self._check_broken(scene)

    def _check_broken(self, scene: Scene) -> None:
        seen = scene.look()
        if passing := scene.passing_checks(seen):
            raise ProofFailed(f"nothing is repaired, but these checks pass: {passing}")
        if broken := scene.broken_guards(seen):
            raise ProofFailed(f"nobody has done anything, but these guards break: {broken}")

    def _check_unread(self, scene: Scene) -> None:
        pack = scene.pack
        texts = [*readable.given(pack), *self.stage.readable.texts()]
        if len(texts) < MIN_TEXTS:
            raise ProofFailed(f"the candidate can read {len(texts)} texts only, which proves nothing")
        readable.refuse_tells(texts, readable.words_of(pack, self.proof.values))
        services.forget_rollouts(run=scene.run)
        self._traces.refuse()
        self.proof.texts = len(texts)

    def _solve(self, scene: Scene, solution: Solution) -> None:
        """Repair it as the candidate: it passes, holds, and breaks no guard on the way."""
        began = scene.clock.now()
        scene.act(solution)
        self._await_repair(scene)
        self.proof.fixed_s[solution.key] = (scene.clock.now() - began).total_seconds()
        self._hold(scene)

    def _follow(self, scene: Scene, commands: list[WrittenCommand]) -> None:
        """Type what statement and brief tell people to type: all of it runs, and in the end it is repaired."""
        follow(scene, commands)
        self._await_repair(scene)
        self.proof.commands = len(commands)

    def _await_repair(self, scene: Scene) -> None:
        def lacking() -> str:
            seen = scene.look(briefly=True)
            if broken := scene.broken_guards(seen):
                raise ProofFailed(f"guards break: {broken}")
            return scene.open_checks(seen)

        scene.until(lacking, REPAIR_LOOK_S)

    def _hold(self, scene: Scene) -> None:
        """Look as the observer does until every check has held for as long as it has to."""
        passed = scene.clock.now()
        held = {check.key: checks.hold(None, "pass", passed, check.hold) for check in scene.pack.checks}
        longest = max(check.hold for check in scene.pack.checks)
        for _ in range(HOLD_LOOKS):
            scene.clock.wait(longest / HOLD_LOOKS)
            seen = scene.look()
            if found := scene.broken_guards(seen) or scene.open_checks(seen):
                raise ProofFailed(f"it does not hold: {found}")
            for check in scene.pack.checks:
                held[check.key] = checks.hold(held[check.key], "pass", scene.clock.now(), check.hold)
        if late := [key for key, state in held.items() if state.held_at is None]:
            raise ProofFailed(f"these checks pass and do not come to hold: {', '.join(late)}")

    def _play(self, scene: Scene, turn: WrongTurn) -> None:
        turns.play(scene, turn, watched_s=0 if turn.refused else WATCHED_S)
        self.proof.turns.append(turn.route.key)


@contextmanager
def _of(what: str) -> Iterator[None]:
    """Say of a failure inside what it concerns."""
    try:
        yield
    except ProofFailed as exc:
        raise ProofFailed(f"{what}: {exc}") from exc
