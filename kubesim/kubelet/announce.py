"""What kubelets say of their nodes: that they start, what state their nodes come to, cordons, what pods may have."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.informer import Informer, WorkQueue
from kubesim.kubelet import timings
from kubesim.kubelet.host import Node
from kubesim.recorder import Recorder, node_reference
from kubesim.times import micro

STATES = {
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("Ready", "True"): "NodeReady",
    ("Ready", "False"): "NodeNotReady",
}
"""Condition and status -> event. What the control plane finds (Unknown) is for it to say."""
ENFORCED = "Updated Node Allocatable limit across pods"


class Announcer:
    """Speaks for the kubelets of some nodes; those of ``fresh`` start for the first time."""

    def __init__(
        self, client: Client, clock: Clock, names: Collection[str], fresh: Collection[str], selector: str = ""
    ) -> None:
        """``selector``: the nodes that the client may see."""
        self.on_removal: Callable[[str], object] = lambda name: None
        """Called with the name of a node that somebody has deleted."""
        self.on_doubt: Callable[[str], object] = lambda name: None
        """Called with the name of a node whose state the control plane says it does not know."""
        self._client = client
        self._nodes = Informer(client, clock, "nodes", selector)
        self._queue = WorkQueue(clock, self._announce, "announcements")
        self._recorders = {name: Recorder(client, clock, "kubelet", name) for name in names}
        self._said: dict[str, list[str]] = {name: [] for name in fresh}
        """Node -> the states that have been announced."""

    async def start(self) -> None:
        """Announce what is, then what changes."""
        await self._nodes.start()
        for name in self._recorders.keys() - self._said.keys():
            node = self._nodes.get("", name)
            self._said[name] = _states(node) if node is not None else []
        for name, said in self._said.items():
            if not said:
                await self._recorders[name].normal(node_reference(name), "Starting", "Starting kubelet.")
                await self._recorders[name].normal(node_reference(name), "NodeAllocatableEnforced", ENFORCED)
        self._nodes.add_handler(self._changed)
        self._queue.start()

    async def stop(self) -> None:
        """Say no more."""
        await self._queue.stop()
        await self._nodes.stop()

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None and old["metadata"]["name"] in self._recorders:
            self.on_removal(old["metadata"]["name"])
        if new is None or new["metadata"]["name"] not in self._recorders:
            return
        if _is_doubted(new):
            self.on_doubt(new["metadata"]["name"])
        if _states(new) != self._said[new["metadata"]["name"]] or _unshared(new):
            self._queue.add(new["metadata"]["name"])

    async def _announce(self, name: str) -> None:
        node = self._nodes.get("", name)
        if node is None:
            return
        if more := _unshared(node):
            await self._client.patch("nodes", name, "", {"status": {"allocatable": more}}, subresource="status")
        states, said = _states(node), self._said[name]
        self._said[name] = states
        for reason in states:
            if reason not in said and (said or reason != "NodeSchedulable"):
                await self._recorders[name].normal(
                    node_reference(name), reason, f"Node {name} status is now: {reason}"
                )


def _states(node: Obj) -> list[str]:
    """Return what a node's conditions and its cordon amount to, as reasons of events."""
    conditions = node.get("status", {}).get("conditions") or ()
    found = [STATES[c["type"], c["status"]] for c in conditions if (c["type"], c["status"]) in STATES]
    cordoned = node.get("spec", {}).get("unschedulable")
    return [*found, "NodeNotSchedulable" if cordoned else "NodeSchedulable"]


def _is_doubted(node: Obj) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any((c["type"], c["status"]) == ("Ready", "Unknown") for c in conditions)


def _unshared(node: Obj) -> dict[str, str]:
    """Return the resources that somebody has added to a node's capacity: pods may have all of them."""
    status = node.get("status", {})
    allocatable = status.get("allocatable") or {}
    return {name: value for name, value in (status.get("capacity") or {}).items() if name not in allocatable}


LEASES, LEASE_NAMESPACE = "leases.coordination.k8s.io", "kube-node-lease"


async def renew_lease(client: Client, node: Node, now: datetime) -> None:
    """Renew a node's lease, or make it where there is none."""
    lease = _lease(node, micro(now))
    renewed = {"spec": {"renewTime": lease["spec"]["renewTime"]}}
    try:
        await client.patch(LEASES, node.name, LEASE_NAMESPACE, renewed)
    except ApiError as error:
        if error.code != 404:
            return
        # The namespace is made by whoever assembles the cluster, perhaps after us: the next beat tries again.
        with tolerating(403, 404, 409):
            await client.create(LEASES, lease, namespace=LEASE_NAMESPACE)


def _lease(node: Node, renewed: str) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": timings.LEASE_S, "renewTime": renewed},
    }
