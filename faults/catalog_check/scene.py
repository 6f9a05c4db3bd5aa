"""A broken variant in a cluster, and the hands of a candidate: what proofs look at and act with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from faults import checks, selectors, services
from faults.catalog_check.cluster_clock import ClusterClock
from faults.catalog_check.errors import ProofFailed
from faults.checks import CommandRead, Condition, LastLooks, Outcome, Reader
from faults.clock import Clock
from faults.models import FaultRun
from faults.packs import Pack, Solution
from faults.services import ToolboxShell

LOOK_S, GROWTH = 0.1, 0.25
"""Between two looks: at least so long, or a quarter of the time that has passed."""
PATIENCE_S = 180.0
Seen = dict[str, Outcome]


@dataclass(frozen=True)
class Scene:
    """An injected fault. ``shell`` is the candidate's toolbox; ``clock`` is that of the cluster."""

    run: FaultRun
    shell: ToolboxShell
    clock: Clock
    _last: LastLooks = field(default_factory=LastLooks)

    @property
    def pack(self) -> Pack:
        """The pack with this run's names in it."""
        return selectors.bound_pack(self.run)

    @property
    def reader(self) -> Reader:
        """The reader of checks, with every right."""
        return selectors.reader_for(self.run.cluster)

    def look(self, *, briefly: bool = False) -> Seen:
        """Return what each check and guard says now. Raises ProofFailed where one cannot be evaluated.

        A brief look is for whoever waits for a repair: at all guards, and at the checks up to the first open one.
        """
        pack, seen = self.pack, Seen()
        rows = (*pack.guards, *pack.checks) if briefly else (*pack.checks, *pack.guards)
        last_keys = {check.key for check in pack.checks} if briefly else set[str]()
        for key, outcome in self._outcomes(rows):
            seen[key] = outcome
            if key in last_keys and outcome.verdict != "pass":
                break
        return seen

    def look_at(self, keys: Collection[str]) -> Iterator[tuple[str, Outcome]]:
        """Yield what these checks and guards say now, and what they need: as many as are asked for."""
        rows, wanted = (*self.pack.checks, *self.pack.guards), set(keys)
        for row in reversed(rows):  # one needs only what stands before it
            wanted.update(row.needs if row.key in wanted else ())
        yield from self._outcomes([row for row in rows if row.key in wanted])

    def _outcomes(self, rows: Sequence[checks.Check]) -> Iterator[tuple[str, Outcome]]:
        with self._meanwhile(row.condition for row in rows):
            for key, outcome in checks.evaluate_each(rows, self.reader, self._last):
                if outcome.verdict == "error":
                    raise ProofFailed(f"{key}: {outcome.finding}")
                yield key, outcome

    def _meanwhile(self, conditions: Iterable[Condition]) -> AbstractContextManager[None]:
        """Return what moves the time on while a command that is read waits, where one is read."""
        reads = (read for condition in conditions for read in condition.reads.values())
        waits = any(isinstance(read, CommandRead) for read in reads)
        return self.clock.passing() if waits and isinstance(self.clock, ClusterClock) else nullcontext()

    def lacking_symptom(self) -> str:
        """Return what is missing of the symptom, in words; empty where all of it shows."""
        with self._meanwhile(self.pack.symptom):
            for condition in self.pack.symptom:
                outcome = checks.evaluate(condition, self.reader, self._last)
                if outcome.verdict != "pass":
                    return f"{condition.title}: {outcome.finding or outcome.verdict}"
        return ""

    def broken_guards(self, seen: Seen) -> str:
        """Return what the guards find that do not pass."""
        return "; ".join(f"{row.key}: {seen[row.key].finding}" for row in self.pack.guards if not _passes(seen, row))

    def open_checks(self, seen: Seen) -> str:
        """Return what the checks find that do not pass."""
        rows = [row for row in self.pack.checks if row.key in seen and not _passes(seen, row)]
        return "; ".join(f"{row.key}: {seen[row.key].finding}" for row in rows)

    def passing_checks(self, seen: Seen) -> str:
        """Return the checks that pass."""
        return ", ".join(row.key for row in self.pack.checks if _passes(seen, row))

    def act(self, route: Solution) -> None:
        """Do a route's steps as the candidate. Raises ClusterError."""
        services.do_solution(self.shell, route)

    def until(
        self, lacking: Callable[[], str], look_s: float = LOOK_S, patience_s: float = PATIENCE_S, first_s: float = 0.0
    ) -> float:
        """Look until nothing is lacking; return the seconds of the cluster's time. Raises ProofFailed.

        Nobody looks before ``first_s`` seconds have passed.
        """
        began = self.clock.now()
        if first_s:
            self.clock.wait(first_s)
        while lack := lacking():
            passed = (self.clock.now() - began).total_seconds()
            if passed > patience_s:
                raise ProofFailed(f"waited {patience_s:.0f} s: {lack}")
            self.clock.wait(max(look_s, passed * GROWTH))
        return (self.clock.now() - began).total_seconds()


def _passes(seen: Seen, row: checks.Check) -> bool:
    return seen[row.key].verdict == "pass"
