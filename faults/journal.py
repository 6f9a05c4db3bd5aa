"""The database's journal: one row for each step, committed only by the worker that holds the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from faults.engine import Record, State, Target
from faults.errors import LeaseHeld, StaleEpoch
from faults.models import FaultRun, Step

MAX_LEASES_AHEAD = 10
LEASE = timedelta(seconds=8)  # longer than any one request to a cluster, so a live worker never loses it


class DatabaseJournal:
    """``faults.engine.Journal`` over ``Step`` rows, fenced by the run's epoch."""

    def __init__(self, run_id: int, epoch: int, now: Callable[[], datetime]) -> None:
        self._run_id = run_id
        self._epoch = epoch
        self._now = now

    def records(self) -> Sequence[Record]:
        """Return every step, in order."""
        return [to_record(step) for step in Step.objects.filter(run_id=self._run_id).order_by("index")]

    def save(self, record: Record) -> None:
        """Commit one step together with the proof that the run is still ours."""
        with transaction.atomic():
            self.guard()
            step, _ = Step.objects.get_or_create(
                run_id=self._run_id, index=record.index, defaults={**_columns(record), "recorded_at": self._now()}
            )
            stamps = {State.APPLIED: "applied_at", State.REVERTED: "reverted_at"}
            stamp = {stamps[record.state]: self._now()} if record.state in stamps else {}
            Step.objects.filter(pk=step.pk).update(**_columns(record), epoch=self._epoch, **stamp)

    def guard(self) -> None:
        """Prolong the lease; StaleEpoch once somebody else has it."""
        mine = FaultRun.objects.filter(pk=self._run_id, epoch=self._epoch)
        if mine.update(lease_until=self._now() + LEASE) != 1:
            raise StaleEpoch("Another worker has taken this run over.")

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
