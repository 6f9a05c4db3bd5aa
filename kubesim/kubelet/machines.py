"""The machines beneath the kubelets: what their device plugins report, and how they go down and come up again."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.gpu.nodes import CALM, register
from kubesim.informer import WorkQueue
from kubesim.kubelet import timings
from kubesim.kubelet.announce import ENFORCED, STATES
from kubesim.kubelet.gpus import GONE_S, NodeGpus
from kubesim.kubelet.host import Node
from kubesim.kubelet.node_faults import NodeFaults
from kubesim.kubelet.pod import PodWorker
from kubesim.recorder import node_reference


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
        self.touch: Callable[[], None] = lambda: None
        """Called when there is something to keep."""
        self._nodes: dict[str, Node] = {}
        self._down: dict[str, datetime] = {}
        """Node -> when it has booted again."""
        self._dirty: set[str] = set()
        self._rearranged: set[str] = set()
        """Nodes whose services are not what they were."""
        self._faults: dict[str, NodeFaults] = {}
        self._struck: set[str] = set()
        """Nodes whose faults are not what they were."""
        self._fresh: set[str] = set()
        """Nodes whose kubelet has just started."""
        self._queue = WorkQueue(clock, self._sync, "machines")
        self.peers: dict[str, Machines] = {}
        """Node -> its machines, where each node of a group has its own."""

    def take(self, node: Node) -> None:
        """Look after a node."""
        self._nodes[node.name] = node
        node.gpus.changed = lambda: self._changed(node.name)
        node.gpus.noted = lambda: self._dirty.add(node.name)
        node.agents.services.noted = lambda: self._note(self._rearranged, node.name)
        self._faults[node.name] = NodeFaults(node, self._clock, lambda: self._note(self._struck, node.name))

    def _note(self, changed: set[str], node: str) -> None:
        """Note that the services or faults of a node are not what they were: nobody else may tell."""
        changed.add(node)
        self.touch()

    def start(self) -> None:
        """Begin to report."""
        self._queue.start()

    async def stop(self) -> None:
        """Report no more."""
        await self._queue.stop()

    def changes(self) -> dict[str, Obj]:
        """Return what a later start needs of the devices that have changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        changed, self._rearranged = self._rearranged, set()
        services = {f"services/{name}": self._nodes[name].agents.services.dump() for name in changed}
        struck, self._struck = self._struck, set()
        faults = {f"faults/{name}": self._faults[name].dump() for name in struck}
        return {**services, **faults, **{f"gpus/{name}": self._nodes[name].gpus.dump() for name in dirty}}

    def gpus(self, node: str) -> NodeGpus:
        """Return the devices of a node. Raises KeyError for one that is not ours."""
        return self.peers.get(node, self)._nodes[node].gpus

    def faults(self, node: str) -> NodeFaults:
        """Return the faults of a node. Raises KeyError for one that is not ours."""
        return self._faults[node]

    def reboot(self, node: str) -> None:
        """Turn a machine off and on again: it is silent until it has booted. Raises KeyError."""
        held = self.peers.get(node, self)
        if held._nodes[node].name not in held._down:
            held._down[node] = self._clock.now() + timedelta(seconds=timings.REBOOT_S)
            held._queue.add(node)

    async def add(self, node: Obj) -> None:
        """Let a new machine register itself and join."""
        (name,) = await register(self._client, [node])
        joined = await self._joined(name)
        reference = node_reference(name)
        await joined.recorder.normal(reference, "Starting", "Starting kubelet.")
        await joined.recorder.normal(reference, "NodeReady", f"Node {name} status is now: NodeReady")

    def remove(self, node: str) -> None:
        """Take a machine away, with everything on it."""
        if self._nodes.pop(node, None) is not None:
            self._down.pop(node, None)
            self._dirty.discard(node)
            self._rearranged.discard(node)
            self._struck.discard(node)
            self._faults.pop(node).stop()
            self._fresh.discard(node)
            self._left(node)

    def down_for(self, node: str) -> float:
        """Return how many seconds a machine will still be off; 0 for one that runs."""
        until = self._down.get(node)
        return max((until - self._clock.now()).total_seconds(), 0.001) if until is not None else 0.0

    def silent(self, node: str) -> bool:
        """Whether a machine is off, or its kubelet does not run."""
        return node in self._down or self._nodes[node].agents.silent

    def idle_for(self, node: str) -> float:
        """Return after how many seconds to look again whether a kubelet can do anything; 0 where it can."""
        found = self._nodes.get(node)
        return self.down_for(node) or (timings.IDLE_S if found is not None and found.agents.idle else 0.0)

    def greet(self, node: str) -> None:
        """Let a kubelet that has started say so, and report its node."""
        self._fresh.add(node)
        self._queue.add(node)

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
        if node.agents.silent:
            return
        if name in self._fresh:
            await self._greet(node)
        await self._report(node)
        if 0 < (gone := node.gpus.gone_for(self._clock.now())) <= GONE_S:
            self._queue.add_after(name, GONE_S - gone + 1)

    async def _boot(self, node: Node) -> None:
        now = self._clock.now()
        for worker in [*self._workers.values()]:
            if worker.node is node:
                await worker.crash()
        node.gpus.reboot(now)
        node.agents.services.boot()
        boot = node.info["bootID"] = str(uuid.uuid4())
        if node.agents.silent:
            return
        await self._greet(node)
        text = f"Node {node.name} has been rebooted, boot id: {boot}"
        await node.recorder.warning(node_reference(node.name), "Rebooted", text)
        await self._patch(node, {"nodeInfo": {"bootID": boot}})

    async def _greet(self, node: Node) -> None:
        """Let a kubelet say that it starts, and what it finds."""
        self._fresh.discard(node.name)
        reference, calm = node_reference(node.name), [STATES[kind, "False"] for kind in CALM]
        await node.recorder.normal(reference, "Starting", "Starting kubelet.")
        for state in calm:
            await node.recorder.normal(reference, state, f"Node {node.name} status is now: {state}")
        await node.recorder.normal(reference, "NodeAllocatableEnforced", ENFORCED)
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
        with tolerating(404):
            await self._client.patch("nodes", node.name, "", {"status": status}, subresource="status")
