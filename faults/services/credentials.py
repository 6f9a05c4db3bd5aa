"""Clusters that refuse our credentials: since when, and in words that say what helps.

Only clusters that an admin added: a practice cluster's credentials are ours to make, and 401 there is its host
starting. Nothing stops because of it; every try goes on, so that another kubeconfig is all that is needed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet

from faults import clock
from faults.models import Cluster

REFUSED_AFTER = timedelta(seconds=15)  # an authenticator that restarts answers 401, too
REFUSED = (
    "The cluster {name} refuses Faultline's credentials (401): they were revoked or have expired. "
    "An admin replaces its kubeconfig under Clusters; what waits here goes on by itself then."
)


def note_credentials(*, cluster: Cluster, accepted: bool, now: datetime | None = None) -> None:
    """Write down whether a cluster takes our credentials, where that is news."""
    if not cluster.kept or accepted == (cluster.refused_at is None):
        return
    cluster.refused_at = None if accepted else now or clock.now()
    Cluster.objects.filter(pk=cluster.pk, refused_at__isnull=not accepted).update(refused_at=cluster.refused_at)


def credentials_refused_at(cluster: Cluster | None, now: datetime | None = None) -> datetime | None:
    """Return since when a cluster has refused our credentials; None while it takes them, or may do so again."""
    if cluster is None or cluster.refused_at is None:
        return None
    return cluster.refused_at if (now or clock.now()) - cluster.refused_at >= REFUSED_AFTER else None


def refusing_clusters(now: datetime | None = None) -> QuerySet[Cluster]:
    """Return the clusters that refuse our credentials, for those who can replace them."""
    before = (now or clock.now()) - REFUSED_AFTER
    return Cluster.objects.filter(kept=True, archived=False, refused_at__lte=before)


def credentials_words(cluster: Cluster) -> str:
    """Return what has happened to our credentials and what helps, in two sentences."""
    return REFUSED.format(name=cluster.name)
