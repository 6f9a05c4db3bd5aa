"""The machines beneath the kubelets: what their device plugins report, and how they go down and come up again."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.gpu.nodes import register
from kubesim.informer import WorkQueue
from kubesim.kubelet import timings
from kubesim.kubelet.gpus import GONE_S, NodeGpus
from kubesim.kubelet.host import Node
from kubesim.kubelet.pod import PodWorker


class Machines:
    """Those of one cluster. ``returned`` is called for a node that has booted, with its kubelet about to go on;

    ``joined`` runs the kubelet of a node that has registered, ``left`` ends one.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        workers: Mapping[str, PodWorker],
        returned: Callable[[Node], Awaitable[None]],
        joined: Callable[[str], Awaitable[Node]],
        left: Callable[[str], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._workers = workers
        self._returned = returned
        self._joined = joined
        self._left = left
        self._nodes: dict[str, Node] = {}
        self._down: dict[str, datetime] = {}
        """Node -> when it has booted again."""
        self._dirty: set[str] = set()
        self._queue = WorkQueue(clock, self._sync, "machines")

    def take(self, node: Node) -> None:
        """Look after a node."""
        self._nodes[node.name] = node
        node.gpus.changed = lambda: self._changed(node.name)
        node.gpus.noted = lambda: self._dirty.add(node.name)

    def start(self) -> None:
        """Begin to report."""
        self._queue.start()

    async def stop(self) -> None:
        """Report no more."""
        await self._queue.stop()

    def changes(self) -> dict[str, Obj]:
        """Return what a later start needs of the devices that have changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return {f"gpus/{name}": self._nodes[name].gpus.dump() for name in dirty}

    def gpus(self, node: str) -> NodeGpus:
        """Return the devices of a node. Raises KeyError for one that is not ours."""
        return self._nodes[node].gpus

    def reboot(self, node: str) -> None:
        """Turn a machine off and on again: it is silent until it has booted. Raises KeyError."""
        if self._nodes[node].name not in self._down:
            self._down[node] = self._clock.now() + timedelta(seconds=timings.REBOOT_S)
            self._queue.add(node)

    def use(self, node: str, resource: str, amount: int) -> None:
        """Let something that is no pod use so much memory (bytes), disk (bytes), inodes or pids. Raises KeyError."""
        self._nodes[node].watch.use(resource, amount)

    async def add(self, node: Obj) -> None:
        """Let a new machine register itself and join."""
        (name,) = await register(self._client, [node])
        joined = await self._joined(name)
        reference = {"apiVersion": "", "kind": "Node", "metadata": {"name": name, "uid": name}}
        await joined.recorder.normal(reference, "Starting", "Starting kubelet.")
        await joined.recorder.normal(reference, "NodeReady", f"Node {name} status is now: NodeReady")

    def remove(self, node: str) -> None:
        """Take a machine away, with everything on it."""
        if self._nodes.pop(node, None) is not None:
            self._down.pop(node, None)
            self._dirty.discard(node)
            self._left(node)

    def down_for(self, node: str) -> float:
        """Return how many seconds a machine will still be off; 0 for one that runs."""
        until = self._down.get(node)
        return max((until - self._clock.now()).total_seconds(), 0.001) if until is not None else 0.0

    def _changed(self, node: str) -> None:
        self._dirty.add(node)
        self._queue.add_after(node, timings.DEVICES_S)

    async def _sync(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        if (left := self.down_for(name)) > 0.001:
            self._queue.add_after(name, left)
            return
        if self._down.pop(name, None) is not None:
            await self._boot(node)
        await self._report(node)
        if 0 < (gone := node.gpus.gone_for(self._clock.now())) <= GONE_S:
            self._queue.add_after(name, GONE_S - gone + 1)

    async def _boot(self, node: Node) -> None:
        now = self._clock.now()
        for worker in [*self._workers.values()]:
            if worker.node is node:
                await worker.crash()
        node.gpus.reboot(now)
        boot = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{node.name}/{now.isoformat()}"))
        reference = {"apiVersion": "", "kind": "Node", "metadata": {"name": node.name, "uid": node.name}}
        await node.recorder.normal(reference, "Starting", "Starting kubelet.")
        text = f"Node {node.name} has been rebooted, boot id: {boot}"
        await node.recorder.warning(reference, "Rebooted", text)
        await self._patch(node, {"nodeInfo": {"bootID": boot}})
        await self._returned(node)

    async def _report(self, node: Node) -> None:
        """Bring the node's resources up to what its device plugin says."""
        found = node.gpus.resources(self._clock.now())
        if not found:
            return
        try:
            status = (await self._client.get("nodes", node.name)).get("status", {})
        except ApiError as error:
            if error.code != 404:
                raise
            return
        wanted = {
            "capacity": {name: str(count) for name, (count, _) in found.items()},
            "allocatable": {name: str(count) for name, (_, count) in found.items()},
        }
        held = {part: {name: (status.get(part) or {}).get(name) for name in found} for part in wanted}
        if held != wanted:
            await self._patch(node, wanted)

    async def _patch(self, node: Node, status: Obj) -> None:
        try:
            await self._client.patch("nodes", node.name, "", {"status": status}, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
