"""A broken variant in a cluster, and the hands of a candidate: what proofs look at and act with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faults import checks, selectors, services
from faults.catalog_check.errors import ProofFailed
from faults.checks import Check, Outcome, Reader
from faults.clock import Clock
from faults.models import FaultRun
from faults.packs import Pack, Solution

LOOK_S = 0.2
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Scene:
    """An injected fault. ``kubeconfig`` is the candidate's; ``clock`` is that of the cluster."""

    run: FaultRun
    kubeconfig: str
    clock: Clock

    @property
    def pack(self) -> Pack:
        """The pack with this run's names in it."""
        return selectors.bound_pack(self.run)

    @property
    def reader(self) -> Reader:
        """The reader of checks, with every right."""
        return selectors.reader_for(self.run.cluster)

    def look(self) -> dict[str, Outcome]:
        """Return what each check and guard says now. Raises ProofFailed where one cannot be evaluated."""
        rows: tuple[Check, ...] = (*self.pack.checks, *self.pack.guards)
        seen = checks.evaluate_all(rows, self.reader)
        if wrong := [f"{key}: {outcome.finding}" for key, outcome in seen.items() if outcome.verdict == "error"]:
            raise ProofFailed("; ".join(wrong))
        return seen

    def act(self, route: Solution) -> None:
        """Do a route's steps as the candidate. Raises ClusterError."""
        services.apply_solution(run=self.run, solution=route, kubeconfig=self.kubeconfig, clock=self.clock)

    def until(self, missing: Callable[[dict[str, Outcome]], str]) -> dict[str, Outcome]:
        """Look until nothing is missing. Raises ProofFailed with what is, after two minutes of the cluster's time."""
        began = self.clock.now()
        while lack := missing(seen := self.look()):
            if (self.clock.now() - began).total_seconds() > PATIENCE_S:
                raise ProofFailed(f"waited {PATIENCE_S:.0f} s: {lack}")
            self.clock.wait(LOOK_S)
        return seen

    def is_repaired(self, seen: dict[str, Outcome]) -> bool:
        """Return whether all of it passes, guards included."""
        return all(outcome.verdict == "pass" for outcome in seen.values())
