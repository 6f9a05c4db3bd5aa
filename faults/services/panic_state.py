"""Whether injection is stopped: asked before every change that a run makes."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from faults.errors import PanicEngaged
from faults.models import Cluster, Panic


def engaged_panics() -> QuerySet[Panic]:
    """Return every panic that is engaged."""
    return Panic.objects.filter(lifted_at__isnull=True).select_related("cluster")


def panics_over(cluster_id: int | None) -> QuerySet[Panic]:
    """Return the engaged panics that stop injection in a cluster; None stands for one that is yet to be made."""
    return engaged_panics().filter(Q(cluster__isnull=True) | Q(cluster=cluster_id, cluster__isnull=False))


def panic_covers(cluster_id: int | None) -> bool:
    """Return whether injection is stopped in a cluster."""
    return panics_over(cluster_id).exists()


def refuse_while_engaged(cluster: Cluster) -> None:
    """Raise PanicEngaged while injection is stopped in a cluster."""
    if panic_covers(cluster.pk):
        raise PanicEngaged("The panic stop is engaged: nothing is injected until an admin lifts it.")
