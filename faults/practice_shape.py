"""The shape of a practice cluster: the usual one, and more pools where packs require what it has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from faults.inventory import GPU, PRODUCT_LABEL, Inventory, NodeKind, described, lacking, suits
from faults.packs import NodePool, Pack, Requires
from faults.toolbox_nodes import EFFECT, NODE_ROLE

Obj = dict[str, Any]
NODES, GPUS, PRODUCT = 3, 8, "H100"
"""The usual cluster, of which the host of practice clusters keeps one ready: so many GPU nodes, and one without."""
ADDONS = ("coredns", "kube-proxy", "metrics-server", "gpu-operator", "monitoring")
"""Objects that a candidate expects on any GPU cluster; see ``kubesim/README.md``."""
MAX_NODES = 24
TAINT = (GPU, "NoSchedule", "present")
PRODUCT_LABELS = {
    "T4": ("Tesla-T4", "nvidia-tesla-t4"),
    "L4": ("NVIDIA-L4", "nvidia-l4"),
    "A100-40GB": ("NVIDIA-A100-SXM4-40GB", "nvidia-tesla-a100"),
    "A100": ("NVIDIA-A100-SXM4-80GB", "nvidia-a100-80gb"),
    "H100": ("NVIDIA-H100-80GB-HBM3", "nvidia-h100-80gb"),
    "H200": ("NVIDIA-H200", "nvidia-h200-141gb"),
    "B200": ("NVIDIA-B200", "nvidia-b200"),
}
"""The products that a practice cluster can have, each as GPU feature discovery and as GKE label it."""
CANNOT = "“{title}” needs {what}, which no practice cluster can have."
CONTRADICTS = "“{one}” and “{other}” cannot share a cluster: “{title}” needs {what} if the other has its nodes."
NO_SUCH_GPU = "“{title}” needs a toolbox with a GPU ({products}), which no practice cluster can have as well."
TOO_MANY = "The scenarios need {count} nodes together; a practice cluster has at most {most}. Leave one out."


@dataclass(frozen=True, slots=True)
class PracticePool:
    """Nodes of one kind in a practice cluster."""

    count: int
    gpus: int
    product: str = PRODUCT
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()

    @property
    def kind(self) -> NodeKind:
        """Return the nodes as packs compare them."""
        product, accelerator = PRODUCT_LABELS[self.product]
        given = {
            PRODUCT_LABEL: product,
            "cloud.google.com/gke-accelerator": accelerator,
            "nvidia.com/gpu.present": "true",
        }
        return NodeKind(self.gpus, {**(given if self.gpus else {}), **dict(self.labels)}, self.taints, self.count)

    def dump(self) -> Obj:
        """Return it as an entry of the control API's ``nodes``."""
        taints = [{"key": key, "value": value, "effect": effect} for key, effect, value in self.taints]
        hardware: Obj = {"gpus": self.gpus, "product": self.product} if self.gpus else {"gpus": 0}
        return {"count": self.count, **hardware, "labels": dict(self.labels), "taints": taints}


USUAL = (PracticePool(NODES, GPUS, taints=(TAINT,)), PracticePool(1, 0))


@dataclass(frozen=True, slots=True)
class PracticeShape:
    """Nodes and addons of a practice cluster."""

    pools: Sequence[PracticePool] = USUAL
    addons: Sequence[str] = field(default=ADDONS)

    def dump(self) -> Obj:
        """Return it as the control API takes it: the usual nodes by their numbers, which is the fast way."""
        if tuple(self.pools) == USUAL:
            return {"nodes": NODES, "gpus": GPUS, "addons": self.addons}
        return {"nodes": [pool.dump() for pool in self.pools], "addons": self.addons}

    @property
    def inventory(self) -> Inventory:
        """Return the nodes as packs compare them. Whatever addon is asked for is there."""
        return Inventory([pool.kind for pool in self.pools])


def shape_for(packs: Iterable[Pack]) -> PracticeShape:
    """Return the smallest shape that has what all packs require, as far as one can have it."""
    wanted = [pack.requires for pack in packs]
    pools = list(USUAL)
    for pool in (pool for requires in wanted for pool in requires.all_pools):
        if sum(known.count for known in pools if suits(known.kind, pool)) < pool.count:
            _add(pools, pool)
    if product := _toolbox_product(wanted):
        pools.append(PracticePool(1, 1, product, ((NODE_ROLE, ""),), (TAINT, (NODE_ROLE, EFFECT, ""))))
    more = dict.fromkeys(addon for requires in wanted for addon in requires.addons if addon not in ADDONS)
    return PracticeShape(pools, (*ADDONS, *more))


def refusal(packs: Sequence[Pack]) -> str:
    """Return why no practice cluster can have what all of these packs require, in a sentence; empty where one can."""
    for pack in packs:
        for what in _missing([pack], pack.requires):
            return CANNOT.format(title=pack.title, what=what)
    for one, other in combinations(packs, 2):
        for pack in (one, other):
            for what in _missing([one, other], pack.requires):
                return CONTRADICTS.format(one=one.title, other=other.title, title=pack.title, what=what)
    asking = [pack for pack in packs if pack.requires.toolbox_gpu]
    if asking and not _toolbox_product(pack.requires for pack in asking):
        products = " or ".join(asking[-1].requires.toolbox_gpu)
        return NO_SUCH_GPU.format(title=asking[-1].title, products=products)
    count = sum(pool.count for pool in shape_for(packs).pools)
    return TOO_MANY.format(count=count, most=MAX_NODES) if count > MAX_NODES else ""


def _missing(packs: Sequence[Pack], requires: Requires) -> list[str]:
    known = PRODUCT_LABELS.keys()
    unknown = [pool for pool in requires.pools if pool.mig or (pool.products and not known & set(pool.products))]
    without_addons = replace(requires, addons=())
    return [described(pool) for pool in unknown] or [*lacking(shape_for(packs).inventory, without_addons)]


def _toolbox_product(wanted: Iterable[Requires]) -> str:
    """Return the first product that suits every toolbox which is to have a GPU; empty where none is to, or can."""
    asked = [requires.toolbox_gpu for requires in wanted if requires.toolbox_gpu]
    known = [name for name in asked[0] if name in PRODUCT_LABELS] if asked else []
    return next((name for name in known if all(name in products for products in asked)), "")


def _add(pools: list[PracticePool], wanted: NodePool) -> None:
    """Add nodes for a pool, or make those more that were added for another and are of the same kind."""
    labels = tuple(sorted(wanted.labels.items()))
    taints = {(taint.key, taint.effect, taint.value) for taint in wanted.taints} | ({TAINT} if wanted.gpus else set())
    product = next((name for name in wanted.products if name in PRODUCT_LABELS), PRODUCT)
    made = PracticePool(wanted.count, wanted.gpus, product, labels, tuple(sorted(taints)))
    for at, known in enumerate(pools):
        same = (known.product, known.labels, known.taints, bool(known.gpus))
        if same == (made.product, made.labels, made.taints, bool(made.gpus)):
            pools[at] = replace(known, count=max(known.count, made.count), gpus=max(known.gpus, made.gpus))
            return
    pools.append(made)
