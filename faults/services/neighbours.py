"""Other runs in a run's cluster that share objects with it: the engine's ``Neighbours`` over the database."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import transaction
from django.db.models import QuerySet

from faults.engine import Record
from faults.engine.fields import hand_on
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
        steps = self._steps(record).filter(run__status__in=IN_USE)
        return any(step.undo["action"] == "delete" and step.target_uid == record.uid for step in steps)

    def inherit(self, record: Record) -> None:
        """Let runs that changed the same fields later give back what was there before either of us."""
        for step in self._hand_on(record):
            mirror_of(step.run).save(to_record(step))

    @transaction.atomic
    def _hand_on(self, record: Record) -> list[Step]:
        changed = []
        for step in self._newer_patches(record):
            fields = [hand_on(record.undo["fields"], field) for field in step.undo["fields"]]
            if fields != step.undo["fields"]:
                step.undo = {**step.undo, "fields": fields}
                step.save(update_fields=["undo"])
                changed.append(step)
        return changed

    def _newer_patches(self, record: Record) -> Iterator[Step]:
        steps = self._steps(record).filter(run_id__gt=self._run.pk, target_uid=record.uid)
        return (step for step in steps.select_related("run__cluster") if step.undo["action"] == "restore")

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
