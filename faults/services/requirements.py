"""Requirements of a session's scenarios, compared with each other and with the cluster that it is to have."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence, Set
from typing import Any

from django.conf import settings

from faults import clashes, practice_shape, selectors
from faults.errors import FaultError, Forbidden, NotFound
from faults.impersonation import bound_namesakes
from faults.inventory import Inventory, described, gpus_taken_on, is_open, kind_of, lacks, suits
from faults.kube.client import Kube
from faults.metrics import find_service
from faults.models import Cluster
from faults.packs import ClusterValue, NodePool, Pack
from faults.packs.pack import CLUSTER
from faults.packs.requires import OWN_IMAGES
from faults.tiers import policy_of, policy_of_tier

Obj = dict[str, Any]
NO_COMMON_TIER = "The scenarios cannot be in one interview: {tiers}. Leave out what does not go together."
NO_AGENT = "“{title}” needs node agents, and there is no image of them for real clusters: set NODE_AGENT_IMAGE."
NO_IMAGE = "“{title}” needs an image of ours that real nodes can pull: build it (make images) and set {setting}."
NO_NODE = "“{title}” needs {what}, and the cluster has {count} that take new pods."
NO_LABEL = "“{title}” needs the label {label} of the node {node}, which has none that can be used."
NAMESAKE = "In the cluster {cluster}, the {binding}, whom the candidate may impersonate. Choose another cluster."
SETTINGS = {"inference-server": "INFERENCE_SERVER_IMAGE"}
"""The settings that name images of ours for real nodes."""
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/:@-]{0,198}[A-Za-z0-9])?")


def refusal_together(*, packs: Sequence[Pack], tier: str = "", parts: Sequence[int] = ()) -> str:
    """Return why scenarios cannot be in one interview, in a sentence; empty where they can.

    Without a tier, some cluster must be able to have them all: a practice cluster wherever they are made for one.
    ``parts`` has the number of the part that each is in; without it, each is in a part of its own.
    """
    if tier and not policy_of_tier(tier).may_be_dropped and (why := _lacks_images(packs)):
        return why
    if not tier and (why := _tiers(packs)):
        return why
    if why := clashes.clash(packs, parts):
        return why
    tiers = {tier} if tier else _common_tiers(packs)
    made_by_us = any(policy_of_tier(name).may_be_dropped for name in tiers)
    return practice_shape.refusal(packs) if made_by_us else ""


def refusal_by_inventory(*, cluster: Cluster, packs: Sequence[Pack]) -> str:
    """Return what the last preflight found a cluster to lack, in a sentence; empty where it has all, or none was."""
    if cluster.inventory is None or policy_of(cluster).may_be_dropped:
        return ""
    why = lacks(Inventory.load(cluster.inventory), packs, f"the cluster {cluster.name}")
    return f"{why} Choose another cluster, or run its preflight again if it has changed." if why else ""


def require_inventory(*, cluster: Cluster, packs: Sequence[Pack]) -> None:
    """Ask a cluster that is not ours whether it has what scenarios require. Raises FaultError and ClusterError.

    What it may not have is access for somebody whom the candidate may impersonate.
    """
    kube = selectors.kube_for(cluster)
    if why := lacks(take_inventory(cluster, kube), packs, f"the cluster {cluster.name}"):
        raise FaultError(f"{why} Choose another cluster.")
    if found := bound_namesakes(kube, packs):
        raise FaultError(NAMESAKE.format(cluster=cluster.name, binding=found[0]))


def take_inventory(cluster: Cluster, kube: Kube) -> Inventory:
    """Return what a cluster has that packs may require. Raises ClusterError."""
    groups = {kind.api_version.partition("/")[0] for kind in kube.kinds() if "/" in kind.api_version}
    is_monitored = bool(cluster.prometheus_url) or _has_prometheus(kube)
    nodes, namespaces = kube.list("v1", "Node"), kube.list("v1", "Namespace")
    return Inventory.of(nodes, groups, is_monitored=is_monitored, namespaces=namespaces)


def _has_prometheus(kube: Kube) -> bool:
    try:
        return bool(find_service(kube))
    except (NotFound, Forbidden):
        return False


def cluster_values(*, cluster: Cluster, pack: Pack, seed: int) -> dict[str, str]:
    """Return the values that the cluster decides, as parameters of a run: the same seed chooses the same nodes.

    Raises FaultError where the cluster has no such node, and ClusterError.
    """
    images = {CLUSTER + name: _image(cluster, value.image) for name, value in _own_images(pack)}
    if len(images) == len(pack.cluster_values):
        return images
    kube = selectors.kube_for(cluster)
    return images | choose_values(pack, kube.list("v1", "Node"), seed, gpus_taken_on(kube.list("v1", "Pod")))


def _own_images(pack: Pack) -> list[tuple[str, ClusterValue]]:
    return [(name, value) for name, value in pack.cluster_values.items() if value.image]


def _image(cluster: Cluster, name: str) -> str:
    return OWN_IMAGES[name] if policy_of(cluster).may_be_dropped else str(getattr(settings, SETTINGS[name]))


def _lacks_images(packs: Sequence[Pack]) -> str:
    """Return which image for real nodes no setting names, in a sentence."""
    agents = (pack for pack in packs if pack.requires.agent and not settings.NODE_AGENT_IMAGE)
    if asking := next(agents, None):
        return NO_AGENT.format(title=asking.title)
    needed = ((pack, SETTINGS[value.image]) for pack in packs for _, value in _own_images(pack))
    lacking = next(((pack, setting) for pack, setting in needed if not getattr(settings, setting)), None)
    return NO_IMAGE.format(title=lacking[0].title, setting=lacking[1]) if lacking else ""


def choose_values(pack: Pack, nodes: Sequence[Obj], seed: int, taken: Set[str] = frozenset()) -> dict[str, str]:
    """Choose among a cluster's nodes, if possible such as are not ``taken``. Raises FaultError.

    A scenario may need all GPUs of its nodes, and another one's pods get theirs wherever the scheduler finds some.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    chosen: dict[str, str] = {}
    for pool in pack.requires.pools:
        wanted = [name for name, value in pack.cluster_values.items() if value.pool == pool.name]
        chosen |= zip(wanted, _draw(pack, pool, nodes, seed, len(wanted), taken), strict=True)
    for name, value in pack.cluster_values.items():
        if value.label:
            chosen[name] = _label(pack, by_name[chosen[value.node]], value.label)
    return {CLUSTER + name: value for name, value in chosen.items()}


def _draw(pack: Pack, pool: NodePool, nodes: Sequence[Obj], seed: int, count: int, taken: Set[str]) -> list[str]:
    names = sorted(node["metadata"]["name"] for node in nodes if is_open(node) and suits(kind_of(node), pool))
    if len(names) < count:
        raise FaultError(NO_NODE.format(title=pack.title, what=described(pool), count=len(names) or "none"))
    free = [name for name in names if name not in taken]
    chosen_from = free if len(free) >= count else names
    return random.Random(f"{seed}:{pack.slug}:{pool.name}").sample(chosen_from, count)


def _label(pack: Pack, node: Obj, label: str) -> str:
    text = str((node["metadata"].get("labels") or {}).get(label, ""))
    if not _VALUE.fullmatch(text):
        raise FaultError(NO_LABEL.format(title=pack.title, label=label, node=node["metadata"]["name"]))
    return text


def _common_tiers(packs: Sequence[Pack]) -> set[str]:
    return set(Cluster.Tier.values).intersection(*(pack.requires.tiers for pack in packs))


def _tiers(packs: Sequence[Pack]) -> str:
    """Return why no tier of clusters suits every pack."""
    if _common_tiers(packs):
        return ""
    said = [f"“{pack.title}” is made for {' and '.join(pack.requires.tiers)} clusters" for pack in packs]
    return NO_COMMON_TIER.format(tiers="; ".join(said))
