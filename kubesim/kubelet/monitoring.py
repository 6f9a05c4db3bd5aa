"""The cluster's monitoring as kubelets reach it: its modules are read when the first exporter runs, not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from kubesim.client import Client, Reader
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.network.fabric import Fabric, Server
from kubesim.network.pods import PodNetwork

if TYPE_CHECKING:
    from kubesim.kubelet.host import Node
    from kubesim.metrics.telemetry import Telemetry

EXPORTERS = frozenset({"dcgm-exporter", "kube-state-metrics", "metrics-server", "node_exporter", "prometheus"})
"""Behaviours of images whose servers are those of ``metrics.telemetry``."""


class Monitoring:
    """Makes the telemetry of a cluster when it is first wanted: a cluster without it starts sooner."""

    def __init__(self, client: Client, clock: Clock, fabric: Fabric) -> None:
        self._parts = (client, clock, fabric)
        self._telemetry: Telemetry | None = None

    def servers(
        self, behaviour: str, pod: Obj, node: Node, api: Client, reach: Callable[[Reader], PodNetwork]
    ) -> dict[int, Server]:
        """Return what a pod of ``node`` with one of ``EXPORTERS`` listens with.

        ``api`` has the rights of its account; ``reach`` makes its network.
        """
        if self._telemetry is None:
            self._telemetry = import_module("kubesim.metrics.telemetry").Telemetry(*self._parts)
        return self._telemetry.servers(behaviour, pod, node, api, reach)

    @property
    def following(self) -> bool:
        """Whether anything of the cluster is followed."""
        return self._telemetry is not None and self._telemetry.following

    async def stop(self) -> None:
        """Follow the cluster no longer."""
        if self._telemetry is not None:
            await self._telemetry.stop()
