"""Clusters that an admin adds, and their leases: each is given to a session and comes back with its credentials."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from django.utils.text import Truncator

from faults import clock, crypto
from faults.errors import ClusterBusy, FaultError, KubeconfigRefused
from faults.injectors import changes
from faults.kube.addresses import AddressRefused, check_url
from faults.kube.config import Access, parse
from faults.models import Cluster, ClusterLease
from faults.packs import Pack
from faults.packs.denied_rights import denied_rights
from faults.selectors import loopback_is_allowed
from faults.services.requirements import refusal_together

KINDS_OF_OTHERS = "“{title}” cannot run on a shared cluster: it changes {what}, which belongs to everybody there."
RIGHTS_OF_OTHERS = "“{title}” cannot run on a shared cluster: it asks for {what}, which nobody gets there."
NOT_MADE_FOR = "“{title}” is not made for {tier} clusters; its pack names {what}."
MAX_REASON = 300  # characters; a cluster may lack fifty permissions


def check_kubeconfig(text: str) -> Access:
    """Read a kubeconfig for a cluster that is not ours. Raises KubeconfigRefused."""
    access = parse(text)
    try:
        check_url(access.server, loopback=loopback_is_allowed())
    except AddressRefused as exc:
        raise KubeconfigRefused(f"“server” in the cluster is refused: {exc}.") from exc
    return access


def save_cluster(
    *,
    cluster: Cluster | None,
    name: str,
    tier: str,
    kubeconfig: str,
    prometheus_url: str = "",
    archived: bool = False,
) -> Cluster:
    """Add a cluster, or change one that was added; an empty kubeconfig keeps the one that is stored.

    Raises KubeconfigRefused, and FaultError where the change would pull the cluster away under a session.
    """
    cluster = cluster or Cluster(kept=True)
    if why := change_refusal(cluster, tier=tier, kubeconfig=kubeconfig):
        raise FaultError(why)
    if kubeconfig:
        check_kubeconfig(kubeconfig)
        cluster.kubeconfig, cluster.refused_at = crypto.seal(kubeconfig), None
    if kubeconfig or tier != cluster.tier:
        cluster.preflight_at, cluster.preflight_error = None, ""  # of another cluster, or for other permissions
    cluster.name, cluster.tier, cluster.prometheus_url = name, tier, prometheus_url
    cluster.archived = archived
    cluster.save()
    return cluster


def change_refusal(cluster: Cluster, *, tier: str, kubeconfig: str) -> str:
    """Return why a change has to wait until no session has the cluster; empty where it need not.

    Credentials that were revoked or have expired are replaced meanwhile, or the sessions could never end.
    """
    if not cluster.pk or not active_leases(cluster).exists():
        return ""
    if tier != cluster.tier:
        return "A session has this cluster now. Change its tier when it has been given back."
    if kubeconfig and (server := _server(cluster)) and check_kubeconfig(kubeconfig).server != server:
        return f"A session has this cluster now: only another kubeconfig for {server} can replace the stored one."
    return ""


def _server(cluster: Cluster) -> str:
    """Return where the stored kubeconfig leads; empty where it can no longer be read."""
    try:
        return parse(crypto.unseal(cluster.kubeconfig)).server
    except FaultError:
        return ""


def offered_clusters() -> QuerySet[Cluster]:
    """Return the clusters that a session may be given, each with whether it is ``busy``."""
    held = ClusterLease.objects.filter(cluster=OuterRef("pk"), given_back_at__isnull=True, exclusive=True)
    return Cluster.objects.filter(kept=True, archived=False).annotate(busy=Exists(held))


def active_leases(cluster: Cluster) -> QuerySet[ClusterLease]:
    """Return who has a cluster now."""
    return ClusterLease.objects.filter(cluster=cluster, given_back_at__isnull=True)


def exclusive_lease(cluster: Cluster) -> ClusterLease | None:
    """Return the lease because of which nobody else can have a cluster now; None where it can be had."""
    return active_leases(cluster).filter(exclusive=True).first()


def lease_cluster(*, cluster: Cluster, holder: UUID) -> None:
    """Give a cluster to a session; nothing where it has it. Raises ClusterBusy and KubeconfigRefused."""
    if not cluster.kept or active_leases(cluster).filter(holder=holder).exists():
        return
    if cluster.archived:
        raise FaultError(f"The cluster {cluster.name} is not offered any more.")
    check_kubeconfig(crypto.unseal(cluster.kubeconfig))  # a name may lead elsewhere by now
    try:
        with transaction.atomic():
            exclusive = cluster.tier != Cluster.Tier.SHARED
            ClusterLease.objects.create(cluster=cluster, holder=holder, exclusive=exclusive)
    except IntegrityError as exc:
        raise ClusterBusy(busy_words(cluster)) from exc


def give_back_cluster(*, cluster: Cluster, holder: UUID) -> None:
    """End a session's lease; its credentials stay. Nothing where it has none."""
    active_leases(cluster).filter(holder=holder).update(given_back_at=clock.now())


def busy_words(cluster: Cluster) -> str:
    """Return why a cluster cannot be had now."""
    lease = exclusive_lease(cluster)
    since = f" since {timezone.localtime(lease.taken_at):%d %b, %H:%M}" if lease else ""
    return f"Another session has the cluster {cluster.name}{since}. Release that session, or choose another cluster."


def preflight_refusal(cluster: Cluster) -> str:
    """Return the last preflight's reason why no session can work in a cluster; empty where it found none."""
    if not cluster.preflight_error or cluster.preflight_at is None:
        return ""
    at, error = timezone.localtime(cluster.preflight_at), Truncator(cluster.preflight_error).chars(MAX_REASON)
    return (
        f"The last preflight of {cluster.name} failed ({at:%d %b, %H:%M}): {error}. "
        "Choose another cluster, or ask an admin to look at it."
    )


def why_not(*, tier: str, packs: Sequence[Pack], parts: Sequence[int] = ()) -> str:
    """Return why scenarios cannot run, together, on a cluster of a tier, in one sentence; empty where they can.

    ``parts``: as for ``refusal_together``.
    """
    alone = next((why for pack in packs if (why := _why_not(pack, tier))), "")
    return alone or refusal_together(packs=packs, tier=tier, parts=parts)


def _why_not(pack: Pack, tier: str) -> str:
    if tier == Cluster.Tier.SHARED:
        bound = pack.bind()
        if what := [*pack.rights, *denied_rights(bound.access, bound.namespaces.values())]:
            return RIGHTS_OF_OTHERS.format(title=pack.title, what=what[0])
        if outside := _outside_namespaces(pack):
            return KINDS_OF_OTHERS.format(title=pack.title, what=outside[0])
    if tier not in pack.requires.tiers:
        return NOT_MADE_FOR.format(title=pack.title, tier=tier, what=" and ".join(pack.requires.tiers))
    return ""


def _outside_namespaces(pack: Pack) -> list[str]:
    """Return what a pack changes outside its own namespaces."""
    own = set(pack.namespaces.values())
    targets = [change.target for change in changes(pack.bind().inject)]
    return [f"{target.kind} {target.name}" for target in targets if target.namespace not in own]
