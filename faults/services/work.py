"""Lease, journals, engine and fenced status changes, shared by every service that works on a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faults import clock, heartbeat, journal, leases, selectors
from faults.backoff import next_pause
from faults.engine import Engine, PairedJournal, no_failpoint
from faults.errors import StaleEpoch
from faults.injectors import ACTIONS
from faults.kube.client import Kube
from faults.models import FaultRun
from faults.services.mirrors import mirror_of
from faults.services.neighbours import RunNeighbours

Report = Callable[[str, str], None]
Failpoint = Callable[[str], None]
BEAT_S = 1.0
PROGRESS_S = 0.5
"""Between two lines of progress. The observer looks at them no more often."""


def silent(phase: str, detail: str) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Work:
    """One worker's hold on one run. Everything it writes is fenced by ``epoch``."""

    run_id: int
    epoch: int
    now: Callable[[], datetime]
    failpoint: Failpoint
    listener: Report
    told: dict[str, Any] = field(default_factory=dict, compare=False)

    def run(self) -> FaultRun:
        """Return the run as it is now."""
        runs = FaultRun.objects.select_related("cluster", "scenario_version").defer("scenario_version__files")
        return runs.get(pk=self.run_id)

    def update(self, **values: Any) -> None:
        """Change the run; StaleEpoch (and nothing changed) once another worker has it."""
        if FaultRun.objects.filter(pk=self.run_id, epoch=self.epoch).update(**values) != 1:
            raise StaleEpoch("Another worker has taken this run over.")

    def finish(self, **values: Any) -> None:
        """Change the run for the last time, and give it back with it."""
        self.update(lease_holder="", lease_until=None, **values)
        self.told["finished"] = True

    def report(self, phase: str, detail: str, **values: Any) -> None:
        """Show progress on the run, and to whoever called; ``values`` change the run as ``update`` does."""
        self.update(phase=phase[:60], detail=detail, **values)
        self._tell(phase, detail)

    def progress(self, phase: str, detail: str) -> None:
        """Show one of many lines: a phase's first, then as many as can be read, since each is written to the disk.

        Whoever called hears them all.
        """
        if self.told.get("phase") != phase or time.monotonic() - self.told["at"] >= PROGRESS_S:
            self.report(phase, detail)
        else:
            self.listener(phase, detail)

    def beat(self, phase: str, detail: str) -> None:
        """Keep the lease, and let whoever called keep theirs, while something is waited for: once a second."""
        if time.monotonic() - self.told.get("at", 0.0) >= BEAT_S:
            self.keep()
            self._tell(phase, detail)

    def _tell(self, phase: str, detail: str) -> None:
        self.told.update(at=time.monotonic(), phase=phase)
        self.listener(phase, detail)

    def kube(self) -> Kube:
        """Return the client of the run's cluster."""
        return selectors.kube_for(self.run().cluster)

    def journal(self) -> PairedJournal:
        """Return both journals of the run. The fingerprint has to be known: it tells whose the namespace is."""
        return self._journal(self.run())

    def engine(self, run: FaultRun | None = None) -> Engine:
        """Return an engine on the run's cluster and journals; ``run``: as it is now, where the caller has it."""
        run = run or self.run()
        kube, neighbours = selectors.kube_for(run.cluster), RunNeighbours(run)
        return Engine(kube, self._journal(run), ACTIONS, neighbours=neighbours, failpoint=self.failpoint)

    def _journal(self, run: FaultRun) -> PairedJournal:
        database = journal.DatabaseJournal(run.pk, self.epoch, self.now)
        return PairedJournal(database, mirror_of(run))

    def keep(self) -> None:
        """Prolong the lease; StaleEpoch once another worker has the run."""
        journal.DatabaseJournal(self.run_id, self.epoch, self.now).guard()

    def note_failure(self, cause: str, retry_after_s: float | None = None, **values: Any) -> None:
        """Write down that a try failed, and before when there is no use in another."""
        run = self.run()
        now = self.now()
        previous = (run.next_try_at - run.tried_at).total_seconds() if run.next_try_at and run.tried_at else 0.0
        pause = timedelta(seconds=next_pause(max(previous, 0.0), retry_after_s))
        values = {"error": cause, **values}
        self.update(attempts=run.attempts + 1, tried_at=now, next_try_at=now + pause, **values)


@contextmanager
def working(
    run_id: int,
    holder: str,
    now: datetime | None = None,
    report: Report = silent,
    failpoint: Failpoint = no_failpoint,
) -> Iterator[Work]:
    """Hold a run's lease. LeaseHeld while somebody else does."""
    ticking = _ticking(now or clock.now())
    epoch = journal.take(run_id, holder, ticking())
    work = Work(run_id, epoch, ticking, failpoint, report)
    try:
        with heartbeat.beating(work.keep):
            yield work
    finally:
        if not work.told.get("finished"):
            leases.give_back(lambda: journal.give_back(run_id, epoch))


def _ticking(start: datetime) -> Callable[[], datetime]:
    """Return a clock that begins at ``start`` and goes on monotonically, whatever the machine's clock does."""
    zero = time.monotonic()
    return lambda: start + timedelta(seconds=time.monotonic() - zero)
