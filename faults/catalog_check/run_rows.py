"""Rows of a cluster's runs and their steps, written back when the cluster goes back to a checkpoint."""

from __future__ import annotations

from django.db import transaction

from faults.models import Cluster, FaultRun, Step


class RunRows:
    """The runs of a cluster that are not reverted, as they are when this is made."""

    def __init__(self, cluster: Cluster) -> None:
        self._runs = [*FaultRun.objects.filter(cluster=cluster).exclude(status=FaultRun.Status.REVERTED)]
        self._steps = [*Step.objects.filter(run__in=self._runs)]

    @transaction.atomic
    def write_back(self) -> None:
        """Let them be again what they were; a step that has come since goes."""
        known = [step.pk for step in self._steps]
        Step.objects.filter(run__in=self._runs).exclude(pk__in=known).delete()
        for row in (*self._runs, *self._steps):
            row.save()
