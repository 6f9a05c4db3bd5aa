"""What the API server keeps there itself, whoever deletes it: the system's namespaces, and the service of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import Timer
from kubesim.errors import Obj, tolerating
from kubesim.network.door import SERVICE_ADDRESS, SERVICE_PORT
from kubesim.network.gate import API_SERVER
from kubesim.store import Event

MANAGER = "kube-apiserver"
OPTIONS = Options(user="system:apiserver", field_manager=MANAGER)
NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVICE_S, NAMESPACE_S = 10.0, 60.0
"""How often upstream looks whether its service and the system's namespaces are there."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """An object that is put back at most ``after`` seconds later. ``wrong``: whether it leads elsewhere."""

    resource: str
    namespace: str
    obj: Obj
    after: float
    wrong: Callable[[Obj], bool] = lambda found: False

    @property
    def name(self) -> str:
        """Return the object's name."""
        return str(self.obj["metadata"]["name"])


class Standing:
    """Plants what always stands, and puts it back."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._timers: dict[Kept, Timer] = {}

    def plant(self) -> None:
        """Create what is not there."""
        for kept in KEPT:
            self._put(kept)

    def follow(self) -> None:
        """Put back, from now on, what somebody deletes or leads elsewhere."""
        for kept in KEPT:
            kind = self._operations.registry.by_resource(kept.resource)
            self._operations.store.subscribe(kind, partial(self._changed, kept))

    def stop(self) -> None:
        """Put nothing back any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _changed(self, kept: Kept, event: Event) -> None:
        meta = event.object["metadata"]
        if (meta.get("namespace", ""), meta["name"]) != (kept.namespace, kept.name) or kept in self._timers:
            return
        if event.type == "DELETED" or kept.wrong(event.object):
            self._timers[kept] = self._operations.clock.call_later(kept.after, partial(self._put, kept))

    def _put(self, kept: Kept) -> None:
        self._timers.pop(kept, None)
        kind = self._operations.registry.by_resource(kept.resource)
        found = self._operations.store.get(kind, kept.namespace, kept.name)
        with tolerating(403, 404, 409):  # in a namespace that is not there, or goes
            if found is None:
                self._operations.create(kind, kept.namespace, kept.obj, options=OPTIONS)
            elif kept.wrong(found):
                meta = {**found["metadata"], "labels": kept.obj["metadata"]["labels"]}
                self._operations.update(
                    kind, kept.namespace, kept.name, {**kept.obj, "metadata": meta}, options=OPTIONS
                )


def _namespace(name: str) -> Kept:
    return Kept("namespaces", "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, NAMESPACE_S)


def _service() -> Kept:
    """Return the service through which pods reach the API."""
    labels = {"component": "apiserver", "provider": "kubernetes"}
    port = {"name": "https", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": SERVICE_PORT}
    spec = {
        "type": "ClusterIP",
        "clusterIP": SERVICE_ADDRESS,
        "clusterIPs": [SERVICE_ADDRESS],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [port],
        "sessionAffinity": "None",
    }
    meta = {"name": "kubernetes", "labels": labels}
    return Kept(
        "services", "default", {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}, SERVICE_S
    )


PORTS = [{"name": "https", "port": SERVICE_PORT, "protocol": "TCP"}]


def _endpoints() -> Kept:
    """Return where the service leads."""
    meta = {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}
    subsets = [{"addresses": [{"ip": API_SERVER.address}], "ports": PORTS}]
    obj = {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}
    return Kept("endpoints", "default", obj, SERVICE_S, lambda found: found.get("subsets") != subsets)


def _slice() -> Kept:
    """Return the same as a slice."""
    meta = {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}}
    endpoints = [{"addresses": [API_SERVER.address], "conditions": {"ready": True}}]
    head = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta}
    obj = {**head, "addressType": "IPv4", "endpoints": endpoints, "ports": PORTS}
    return Kept(
        "endpointslices.discovery.k8s.io",
        "default",
        obj,
        SERVICE_S,
        lambda found: (found.get("endpoints"), found.get("ports")) != (endpoints, PORTS),
    )


KEPT = (*(_namespace(name) for name in NAMESPACES), _service(), _endpoints(), _slice())
