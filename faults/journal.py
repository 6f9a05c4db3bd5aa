"""The database's journal: one row for each step, committed only by the worker that holds the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from faults.engine import Record, State, Target
from faults.errors import LeaseHeld, StaleEpoch
from faults.models import FaultRun, Step

MAX_LEASES_AHEAD = 10
LEASE = timedelta(seconds=8)  # longer than any one request to a cluster, so a live worker never loses it
PROLONG = timedelta(seconds=1)
OVERTAKEN = "Another worker has taken this run over."
_HELD = "SELECT 1 FROM faults_faultrun WHERE id = %s AND epoch = %s"
"""Asked before every write to a cluster. To build it anew took Django longer than the database takes to answer."""


class DatabaseJournal:
    """``faults.engine.Journal`` over ``Step`` rows, fenced by the run's epoch."""

    def __init__(self, run_id: int, epoch: int, now: Callable[[], datetime]) -> None:
        self._run_id = run_id
        self._epoch = epoch
        self._now = now
        self._prolonged: datetime | None = None

    def records(self) -> Sequence[Record]:
        """Return every step, in order."""
        return [to_record(step) for step in Step.objects.filter(run_id=self._run_id).order_by("index")]

    def save(self, *records: Record) -> None:
        """Commit steps together with the proof that the run is still ours."""
        with transaction.atomic():
            self._prolong()
            for state in {record.state for record in records}:
                self._write([record for record in records if record.state is state])

    def guard(self) -> None:
        """Prove that the run is still ours, and prolong the lease now and then; StaleEpoch once somebody else has it.

        Between two prolongations a look is enough, which waits neither for the disk nor for other writers.
        """
        if self._prolonged is None or self._now() - self._prolonged >= PROLONG:
            self._prolong()
        elif not self._is_ours():
            raise StaleEpoch(OVERTAKEN)

    def _prolong(self) -> None:
        now = self._now()
        run = FaultRun.objects.filter(pk=self._run_id, epoch=self._epoch)
        if run.update(lease_until=now + LEASE) != 1:
            raise StaleEpoch(OVERTAKEN)
        self._prolonged = now

    def _is_ours(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(_HELD, [self._run_id, self._epoch])
            return cursor.fetchone() is not None

    def _write(self, records: Sequence[Record]) -> None:
        """Write records of one state in one statement, those that are there already with a stamp more."""
        Step.objects.bulk_create(
            [self._step(record) for record in records],
            update_conflicts=True,
            unique_fields=["run", "index"],
            update_fields=[*_columns(records[0]), *self._stamps(records[0])],
        )

    def _step(self, record: Record) -> Step:
        columns = _columns(record) | self._stamps(record)
        return Step(run_id=self._run_id, index=record.index, recorded_at=self._now(), **columns)

    def _stamps(self, record: Record) -> dict[str, object]:
        """Return who writes a record, and when."""
        names = {State.APPLIED: "applied_at", State.REVERTED: "reverted_at"}
        stamp = {names[record.state]: self._now()} if record.state in names else {}
        return {"epoch": self._epoch, **stamp}

    def close(self) -> Sequence[Record]:
        """Rows stay: they are the record of what was done."""
        return []


def break_lease(run_id: int) -> None:
    """Take a run from whoever has it: their next write finds its epoch outdated."""
    FaultRun.objects.filter(pk=run_id).update(epoch=F("epoch") + 1, lease_holder="", lease_until=None)


def take(run_id: int, holder: str, now: datetime) -> int:
    """Take a run's lease and return its new epoch; LeaseHeld while another worker has it.

    The same holder may take it again at once: it asks because it was started again.
    """
    by_a_wrong_clock = Q(lease_until__gt=now + MAX_LEASES_AHEAD * LEASE)  # nobody takes it for so long
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=now) | Q(lease_holder=holder) | by_a_wrong_clock
    with transaction.atomic():
        taken = FaultRun.objects.filter(free, pk=run_id).update(
            epoch=F("epoch") + 1, lease_holder=holder, lease_until=now + LEASE
        )
        if not taken:
            raise LeaseHeld("Another worker is on this run; it goes on by itself.")
        return FaultRun.objects.values_list("epoch", flat=True).get(pk=run_id)


def give_back(run_id: int, epoch: int) -> None:
    """Release a run's lease, if it is still this epoch's."""
    FaultRun.objects.filter(pk=run_id, epoch=epoch).update(lease_holder="", lease_until=None)


def to_record(step: Step) -> Record:
    """Return a row as the engine's record."""
    return Record(
        index=step.index,
        injector=step.kind,
        target=Target.load(step.target),
        undo=step.undo,
        uid=step.target_uid,
        state=State(step.status),
        outcome=step.outcome,
        schema=step.schema,
    )


def _columns(record: Record) -> dict[str, object]:
    return {
        "kind": record.injector,
        "target": record.target.dump(),
        "undo": record.undo,
        "target_uid": record.uid,
        "status": str(record.state),
        "outcome": record.outcome,
        "schema": record.schema,
    }
