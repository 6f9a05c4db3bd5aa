"""The clusters of sessions: practice clusters, born for one and dropped at its end, and those that are lent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faults import clock, crypto, practice
from faults.errors import NotFound, NotYet
from faults.kube.config import parse
from faults.models import Cluster, FaultRun
from faults.packs import Pack
from faults.practice_shape import shape_for
from faults.services.leasing import check_kubeconfig
from faults.session_agents import PRACTICE_IMAGE as AGENT_IMAGE
from faults.tiers import policy_of
from faults.toolbox import PRACTICE_IMAGE


def ensure_practice_cluster(
    *, name: str, deadline: datetime, packs: Iterable[Pack] = (), skips: bool = False
) -> Cluster:
    """Return the practice cluster of that name, made if need be; it drops itself at ``deadline``.

    It has what the ``packs`` require, and the toolbox's image; where it ``skips``, its time can be moved on. Raises
    ClusterError where the host of practice clusters does not answer.
    """
    bound = [pack.bind() for pack in packs]
    images = {image["name"]: image for pack in bound for image in pack.images}
    ours = [PRACTICE_IMAGE, *([AGENT_IMAGE] if any(pack.requires.agent for pack in bound) else [])]
    present = [*dict.fromkeys([*ours, *(image for pack in bound for image in pack.requires.images)])]
    made = practice.create(name, deadline, shape_for(bound), [*images.values()], present, skips=skips)
    parse(made["kubeconfig"])
    known = Cluster.objects.filter(name=name).first()
    if known is not None and known.kubeconfig and crypto.unseal(known.kubeconfig) == made["kubeconfig"]:
        return known  # sealing again would give every process a new client
    sealed = crypto.seal(made["kubeconfig"])
    cluster, _ = Cluster.objects.update_or_create(
        name=name,
        defaults={
            "tier": Cluster.Tier.PRACTICE,
            "kubeconfig": sealed,
            "released_at": None,
        },
    )
    return cluster


def restarts_of(*, cluster: Cluster) -> practice.Restarts | None:
    """Return how often our host has started a cluster again; None for one that others run, or that has gone.

    Raises ClusterError where the host does not answer.
    """
    if not policy_of(cluster).may_be_dropped:
        return None
    try:
        return practice.restarts(cluster.name)
    except NotFound:
        return None


def lend_cluster(*, name: str, kubeconfig: str) -> Cluster:
    """Take in a cluster that is there already, for one session. Raises KubeconfigRefused for an unusual file."""
    check_kubeconfig(kubeconfig)
    lent = {"tier": Cluster.Tier.DEDICATED, "kubeconfig": crypto.seal(kubeconfig), "released_at": None}
    cluster, _ = Cluster.objects.update_or_create(name=name, defaults=lent)
    return cluster


def release_cluster(*, cluster: Cluster) -> None:
    """Drop a cluster that was made for one session; forget the credentials of one that was lent.

    One that an admin added keeps them: ``give_back_cluster`` ends the lease.
    Raises NotYet until the host confirms that the cluster has gone, and ClusterError where it does not answer.
    """
    if policy_of(cluster).may_be_dropped:
        practice.drop(cluster.name)
        if practice.exists(cluster.name):
            raise NotYet(f"The cluster {cluster.name} is still being dropped")
    elif cluster.runs.exclude(status=FaultRun.Status.REVERTED).exists():
        return  # what is left in it can only be taken back, and looked for, with these credentials
    made_for_one = Cluster.objects.filter(pk=cluster.pk, released_at__isnull=True, kept=False)
    made_for_one.update(released_at=clock.now(), kubeconfig="")
