"""The addresses of services as objects: the range that they come from, and an IPAddress for each that is taken."""

from __future__ import annotations

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.errors import Obj, tolerating
from kubesim.store import Event
from kubesim.times import stamp

GROUP = "networking.k8s.io"
RANGE = "10.96.0.0/16"
LABELS = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
KEEP = "networking.k8s.io/service-cidr-finalizer"


class Addresses:
    """Follows the services of a store."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._kind = operations.registry.by_resource(f"ipaddresses.{GROUP}")
        operations.store.subscribe(operations.registry.by_resource("services"), self._changed)

    def plant(self) -> None:
        """Create the range of a fresh cluster."""
        operations, options = self._operations, Options(user="system:apiserver", field_manager="kube-apiserver")
        ranges = operations.registry.by_resource(f"servicecidrs.{GROUP}")
        meta = {"name": "kubernetes", "finalizers": [KEEP]}
        made = operations.create(ranges, "", {"metadata": meta, "spec": {"cidrs": [RANGE]}}, options=options)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(operations.clock.now())}
        status = {"conditions": [ready | {"reason": "", "message": "Kubernetes Service CIDR is ready"}]}
        operations.update(ranges, "", "kubernetes", {**made, "status": status}, subresource="status", options=options)

    def _changed(self, event: Event) -> None:
        before = _addresses(event.previous) if event.previous is not None else set()
        after = _addresses(event.object) if event.type != "DELETED" else set()
        for address in sorted(before - after):
            self._drop(address)
        for address in sorted(after - before):
            self._take(address, event.object["metadata"])

    def _take(self, address: str, owner: Obj) -> None:
        reference = {"resource": "services", "namespace": owner["namespace"], "name": owner["name"]}
        made = {"metadata": {"name": address, "labels": LABELS}, "spec": {"parentRef": reference}}
        options = Options(user="system:apiserver", field_manager="kube-apiserver")
        with tolerating(409):
            self._operations.create(self._kind, "", made, options=options)

    def _drop(self, address: str) -> None:
        with tolerating(404):
            self._operations.delete(self._kind, "", address)


def _addresses(service: Obj) -> set[str]:
    """Return the addresses of a service; one without ("None") has none."""
    return {address for address in service["spec"].get("clusterIPs") or () if address not in ("", "None")}
