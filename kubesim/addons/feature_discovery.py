"""GPU feature discovery: labels of a node that tell of its GPUs.

(It writes its labels itself, where node-feature-discovery would write what it finds.)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kubesim.addons.operator import Discovery
from kubesim.gpu.board import Board
from kubesim.kubelet.duties import Post

PREFIX = "nvidia.com/"
POLL_S = 60.0


class GpuDiscovery(Discovery):
    """The program of one node."""

    every_s = POLL_S
    told: Mapping[str, str] = MappingProxyType({})
    """What it has said last."""

    async def tell(self) -> None:
        """Write what has changed since it said something last, or since the node was made."""
        board = self.post.machines.gpus(self.post.node).board
        found = labels(board, self.post.env.get("MIG_STRATEGY") or "none")
        if found == self.told:
            return
        node = await self.post.client.get("nodes", self.post.node)
        held = node["metadata"].get("labels") or {}
        changed = {name: value for name, value in found.items() if held.get(name) != value}
        if changed:
            patch = {"metadata": {"labels": changed}}
            await self.post.client.patch("nodes", self.post.node, "", patch)
        self.told = found


def labels(board: Board, strategy: str) -> dict[str, str]:
    """Return the labels that are not the same of every node; ``strategy``: MIG's, of which nothing else tells."""
    product = board.product
    found = _resource("gpu", product.label, len(board.devices), product.memory)
    found[f"{PREFIX}mig.strategy"] = strategy
    if board.replicas > 1:
        found |= {f"{PREFIX}gpu.replicas": str(board.replicas), f"{PREFIX}gpu.sharing-strategy": "time-slicing"}
    return found


def _resource(name: str, product: str, count: int, memory: int) -> dict[str, str]:
    values = {"product": product, "count": count, "memory": memory, "replicas": 1, "sharing-strategy": "none"}
    return {f"{PREFIX}{name}.{key}": str(value) for key, value in values.items()}


def begin(post: Post) -> GpuDiscovery | None:
    """Label the node, if it has GPUs."""
    return GpuDiscovery(post) if post.machines.gpus(post.node).count else None
