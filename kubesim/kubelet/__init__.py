"""Kubelets that seem to run containers: pod life cycle, images, logs, node status and heartbeats, on a clock.

They reach the API only through ``kubesim.client.Client``, so the same code joins a cluster of any kind.
"""

from __future__ import annotations

from typing import Any

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.kubelet.images import STANDARD, Catalogue
from kubesim.kubelet.node import Kubelets
from kubesim.network.fabric import Fabric

__all__ = ["Kubelets", "start"]


async def start(
    client: Client,
    clock: Clock,
    *node_names: str,
    state: dict[str, Any] | None = None,
    fabric: Fabric | None = None,
    selector: str = "",
    cidr: str = "10.244.0.0/24",
    foreign: bool = False,
    catalogue: Catalogue = STANDARD,
) -> Kubelets:
    """Run the kubelets of registered nodes. ``state`` is what ``changes`` returned earlier, through JSON.

    ``selector``: the pods that ``client`` may see; ``cidr``: the pods' addresses where a node says nothing;
    ``foreign``: whether the cluster is not kubesim's; ``catalogue``: what the registries serve.
    """
    kubelets = Kubelets(
        client,
        clock,
        node_names,
        state or {},
        fabric or Fabric(),
        selector=selector,
        cidr=cidr,
        foreign=foreign,
        catalogue=catalogue,
    )
    await kubelets.start()
    return kubelets
