"""GPU feature discovery: labels of a node that tell of its GPUs, and of how MIG cuts them.

(node-feature-discovery, which writes the labels that it finds, is taken to be there.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from kubesim.addons.operator import Discovery
from kubesim.gpu.board import Board
from kubesim.gpu.mig import jpegs, multiprocessors
from kubesim.gpu.products import MigProfile
from kubesim.kubelet.duties import Post
from kubesim.kubelet.plugin import strategy

PREFIX = "nvidia.com/"
POLL_S = 60.0


class GpuDiscovery(Discovery):
    """The program of one node."""

    every_s = POLL_S
    told: Mapping[str, str | None] = MappingProxyType({})
    """What it has said last."""

    async def tell(self) -> None:
        """Write what has changed since it said something last, or since the node was made."""
        board = self.post.machines.gpus(self.post.node).board
        found: dict[str, str | None] = {**labels(board, strategy(self.post))}
        if found == self.told:
            return
        node = await self.post.client.get("nodes", self.post.node)
        held = node["metadata"].get("labels") or {}
        stale = [name for name in held if name.startswith(f"{PREFIX}mig-") or name in _OPTIONAL]
        wanted = {**{name: None for name in stale if name not in found}, **found}
        changed = {name: value for name, value in wanted.items() if held.get(name) != value}
        if changed:
            patch = {"metadata": {"labels": changed}}
            await self.post.client.patch("nodes", self.post.node, "", patch)
        self.told = found


_ATTRIBUTES = ("multiprocessors", "slices.gi", "slices.ci", "engines.copy", "engines.decoder", "engines.encoder",
               "engines.jpeg", "engines.ofa")  # fmt: skip
_OPTIONAL = frozenset(f"{PREFIX}gpu.{name}" for name in _ATTRIBUTES)
"""What a node has only where its instances stand for GPUs."""


def labels(board: Board, how: str) -> dict[str, str]:
    """Return the labels that a MIG strategy (none, single, mixed) lets vary."""
    product = board.product
    found = _resource("gpu", product.label, len(board.devices), product.memory)
    found[f"{PREFIX}mig.strategy"] = how
    if board.replicas > 1:
        found |= {f"{PREFIX}gpu.replicas": str(board.replicas), f"{PREFIX}gpu.sharing-strategy": "time-slicing"}
    cut = Counter(item.profile for device in board.devices if device.mig_mode for item in device.instances)
    if how == "single" and any(device.mig_mode for device in board.devices):
        if board.invalid_cut():
            return found | _resource("gpu", f"{product.label}-MIG-INVALID", 0, 0) | {f"{PREFIX}gpu.replicas": "0"}
        for profile, count in cut.items():
            found |= _instances("gpu", board, profile, count)
    if how == "mixed":
        for profile, count in cut.items():
            found |= _instances(profile.resource.removeprefix(PREFIX), board, profile, count)
    return found


def _resource(name: str, product: str, count: int, memory: int) -> dict[str, str]:
    values = {"product": product, "count": count, "memory": memory, "replicas": 1, "sharing-strategy": "none"}
    return {f"{PREFIX}{name}.{key}": str(value) for key, value in values.items()}


def _instances(name: str, board: Board, profile: MigProfile, count: int) -> dict[str, str]:
    product = board.product
    label = f"{product.label}-MIG-{profile.name.replace('+', '.')}"
    values = (
        multiprocessors(product, profile.slices), profile.slices, profile.slices, profile.copy_engines,
        profile.decoders, 0, jpegs(product, profile), profile.ofas,
    )  # fmt: skip
    attributes = {f"{PREFIX}{name}.{key}": str(value) for key, value in zip(_ATTRIBUTES, values, strict=True)}
    return _resource(name, label, count, profile.memory_mib) | attributes


def begin(post: Post) -> GpuDiscovery | None:
    """Label the node, if it has GPUs."""
    return GpuDiscovery(post) if post.machines.gpus(post.node).count else None
