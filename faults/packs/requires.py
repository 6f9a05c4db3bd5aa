"""Requirements of a cluster: its tier, its nodes, and what else has to be in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from faults.packs.errors import PackError

Obj = dict[str, Any]
DOCUMENT = "scenario.yaml"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that every node of a pool has."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class NodePool:
    """At least ``count`` nodes of one kind, each with at least ``gpus`` GPUs; a named pool with none has no GPUs.

    Any of the ``products`` will do, whichever a cluster has; a practice cluster gets the first. ``mig`` is the MIG
    configuration, without which a GPU must not be partitioned. The nodes' other taints are nobody's business, unless
    they keep pods away.
    """

    name: str
    count: int
    gpus: int
    products: tuple[str, ...] = ()
    mig: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Requires:
    """Requirements of a cluster.

    ``nodes`` with ``gpus`` each, of any kind, and ``pools`` of certain kinds, which may be the same nodes. No node
    may have more than ``max_gpus``, nor a label of ``no_labels`` (``key=value``). The images are on the nodes of a
    practice cluster from the start, so that nobody waits for a pull; ``addons`` it has beside the usual ones. With
    ``toolbox_gpu`` the toolbox has a GPU of one of these products, on a node of its own.
    """

    tiers: tuple[str, ...]
    nodes: int
    gpus: int
    agent: bool
    images: tuple[str, ...] = ()
    pools: tuple[NodePool, ...] = ()
    addons: tuple[str, ...] = ()
    max_gpus: int | None = None
    no_labels: tuple[str, ...] = ()
    toolbox_gpu: tuple[str, ...] = ()

    @property
    def all_pools(self) -> tuple[NodePool, ...]:
        """Return the pools, with the nodes of any kind as one without a name."""
        plain = (NodePool("", self.nodes, self.gpus),) if self.nodes else ()
        return (*self.pools, *plain)

    @property
    def total_gpus(self) -> int:
        """Return how many GPUs there have to be."""
        return sum(pool.count * pool.gpus for pool in self.all_pools)


OWN_IMAGES = {"inference-server": "ghcr.io/platform-tools/inference-server:1.2"}
"""Images that are built here, by the names under which simulated nodes know them (``make images``)."""


@dataclass(frozen=True, slots=True)
class ClusterValue:
    """A value that the cluster decides: the name of a node of a ``pool``, or the ``label`` of such a ``node``.

    Of two names from one pool, each is another node's. Or it is the ``image`` of ours (of ``OWN_IMAGES``) under the
    name by which the cluster's nodes can pull it.
    """

    pool: str = ""
    label: str = ""
    node: str = ""
    image: str = ""

    def undecided(self, name: str) -> str:
        """Return what stands in its place as long as there is no cluster."""
        return OWN_IMAGES[self.image] if self.image else f"any-{name}"


def build(row: Obj) -> Requires:
    """Return what the pack asks of a cluster."""
    return Requires(
        tiers=tuple(row["tiers"]),
        nodes=row.get("nodes", 0),
        gpus=row.get("gpus", 0),
        agent=row["agent"],
        images=tuple(row.get("images", [])),
        pools=tuple(_pool(entry) for entry in row.get("pools", [])),
        addons=tuple(row.get("addons", [])),
        max_gpus=row.get("max-gpus"),
        no_labels=tuple(row.get("no-labels", [])),
        toolbox_gpu=tuple(row.get("toolbox-gpu", [])),
    )


def build_values(document: Obj) -> dict[str, ClusterValue]:
    """Return the values that the cluster decides, by name."""
    return {name: ClusterValue(**row) for name, row in document.get("cluster-values", {}).items()}


def check(document: Obj) -> None:
    """Raise ``PackError`` for pools of one name, values that no pool can give, and a GPU that is everybody's."""
    if "toolbox-gpu" in document["requires"] and "shared" in document["requires"]["tiers"]:
        message = "takes a node, which nobody has to themselves on shared clusters; remove shared from requires.tiers"
        raise PackError(DOCUMENT, "requires.toolbox-gpu", message)
    counts: dict[str, int] = {}
    for number, row in enumerate(document["requires"].get("pools", [])):
        if row["name"] in counts:
            raise PackError(DOCUMENT, f"requires.pools.{number}.name", f"the name {row['name']} is there twice")
        counts[row["name"]] = row["count"]
    for where, message in _problems(build_values(document), counts):
        raise PackError(DOCUMENT, f"cluster-values.{where}", message)


def _problems(values: Mapping[str, ClusterValue], counts: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if value.pool and value.pool not in counts:
            yield f"{name}.pool", f"there is no pool {value.pool}; valid are: {', '.join(counts) or '(none)'}"
        if value.node and not values.get(value.node, ClusterValue()).pool:
            yield f"{name}.node", f"{value.node} is not the name of a value with a pool"
    for pool, count in counts.items():
        if sum(value.pool == pool for value in values.values()) > count:
            yield pool, f"there are more values than the {count} nodes of the pool {pool}"


def _pool(row: Obj) -> NodePool:
    return NodePool(
        name=row["name"],
        count=row["count"],
        gpus=row["gpus"],
        products=tuple(row.get("products", [])),
        mig=row.get("mig", ""),
        labels=dict(row.get("labels", {})),
        taints=tuple(Taint(**taint) for taint in row.get("taints", [])),
    )
