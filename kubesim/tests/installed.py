"""Add-ons in a test's cluster."""

from __future__ import annotations

import yaml

from kubesim import clusterfile, data
from kubesim.custom.definitions import Definitions
from kubesim.tests.world import World


async def install(w: World, *names: str, seconds: float = 15.0) -> None:
    """Create the objects of add-ons and let their pods begin."""
    registry = w.client.operations.registry
    Definitions(w.client.operations)
    for name in names:
        text = (clusterfile.ADDONS / f"{name}.yaml").read_text(encoding="utf-8")
        for obj in yaml.load_all(text, Loader=data.LOADER):
            kind = registry.by_kind(obj["apiVersion"], obj["kind"])
            await w.client.create(kind.resource, obj, namespace=obj["metadata"].get("namespace", ""))
            await w.tick(0)
    await w.tick(seconds)
