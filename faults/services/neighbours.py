"""Other runs in a run's cluster that share objects with it: the engine's ``Neighbours`` over the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet, Subquery

from faults.engine import Action, Record
from faults.injectors import ACTIONS
from faults.journal import to_record
from faults.models import FaultRun, Step
from faults.services.mirrors import mirror_of

Status = FaultRun.Status
IN_USE = (Status.PLANNED, Status.INJECTING, Status.ACTIVE, Status.RESOLVED, Status.FAILED)


class RunNeighbours:
    """``faults.engine.Neighbours`` of one run."""

    def __init__(self, run: FaultRun) -> None:
        self._run = run

    def have(self, record: Record) -> bool:
        """Return whether a run that is in use created the very object, or took it for its own."""
        steps = self._steps(record).filter(run__status__in=IN_USE, target_uid=record.uid)
        return any(step.undo["action"] == record.undo["action"] for step in steps)

    def inherit(self, record: Record) -> Record:
        """Let runs that changed the same object later give back what was there before either of us."""
        own = Step.objects.filter(run=self._run.pk, index=record.index).values("pk")
        newer = self._steps(record).filter(target_uid=record.uid, pk__gt=Subquery(own)).order_by("pk")
        left = record

        def take_over(other: Record) -> Record:
            nonlocal left
            other, left = _action(other).inherit(other, left)
            return other

        _change(newer, take_over)
        return left

    def follow(self, record: Record, old: str) -> None:
        """Let other runs' steps of an object that was made anew refer to its new UID."""
        others = self._steps(record).filter(target_uid=old)
        _change(others, lambda other: _action(other).follow(other, record.target, old, record.uid))

    def _steps(self, record: Record) -> QuerySet[Step]:
        target = record.target
        others = Step.objects.filter(run__cluster=self._run.cluster_id).exclude(run=self._run.pk)
        there = others.exclude(status=Step.Status.REVERTED).exclude(run__status=Status.REVERTED)
        return there.filter(
            target__apiVersion=target.api_version,
            target__kind=target.kind,
            target__namespace=target.namespace,
            target__name=target.name,
        )


def _action(record: Record) -> Action[Any]:
    return ACTIONS[record.undo["action"]]


def _change(steps: QuerySet[Step], change: Callable[[Record], Record]) -> None:
    """Write what becomes of other runs' records, into the database and into their copies in the cluster."""
    for step in _write_changed(steps, change):
        mirror_of(step.run).save(to_record(step))


@transaction.atomic
def _write_changed(steps: QuerySet[Step], change: Callable[[Record], Record]) -> list[Step]:
    changed = []
    for step in steps.select_related("run__cluster"):
        before = to_record(step)
        after = change(before)
        if after != before:
            step.undo, step.target_uid = after.undo, after.uid
            step.save(update_fields=["undo", "target_uid"])
            changed.append(step)
    return changed
