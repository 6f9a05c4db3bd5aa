"""The clusters of sessions: practice clusters, born for one and dropped at its end, and those that are lent."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from faults import crypto, practice
from faults.kube.config import parse
from faults.models import Cluster


def ensure_practice_cluster(*, name: str, deadline: datetime, nodes: int = 3, gpus: int = 8) -> Cluster:
    """Return the practice cluster of that name, made if need be; it drops itself at ``deadline``.

    ``gpus`` is the number on each node. Raises ClusterError where the host of practice clusters does not answer.
    """
    made = practice.create(name, deadline, nodes, gpus)
    parse(made["kubeconfig"])
    known = Cluster.objects.filter(name=name).first()
    if known is not None and known.kubeconfig and crypto.unseal(known.kubeconfig) == made["kubeconfig"]:
        return known  # sealing again would give every process a new client
    sealed = crypto.seal(made["kubeconfig"])
    cluster, _ = Cluster.objects.update_or_create(
        name=name, defaults={"tier": Cluster.Tier.PRACTICE, "kubeconfig": sealed, "released_at": None}
    )
    return cluster


def lend_cluster(*, name: str, kubeconfig: str) -> Cluster:
    """Take in a cluster that is there already, for one session. Raises KubeconfigRefused for an unusual file."""
    parse(kubeconfig)
    lent = {"tier": Cluster.Tier.DEDICATED, "kubeconfig": crypto.seal(kubeconfig), "released_at": None}
    cluster, _ = Cluster.objects.update_or_create(name=name, defaults=lent)
    return cluster


def release_cluster(*, cluster: Cluster) -> None:
    """Drop a practice cluster; of any other, forget the credentials."""
    if cluster.tier == Cluster.Tier.PRACTICE:
        practice.drop(cluster.name)
    Cluster.objects.filter(pk=cluster.pk, released_at__isnull=True).update(released_at=timezone.now(), kubeconfig="")
