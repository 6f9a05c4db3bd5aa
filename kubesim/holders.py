"""The leases that the programs of a control plane hold: who serves, and who leads."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from uuid import uuid4

from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.clock import Clock, Timer
from kubesim.errors import ApiError, Obj
from kubesim.times import micro

RENEWAL_S = 10.0
SERVER_LEASE_S, LEADER_LEASE_S = 3600, 15
LEADERS = {"controllers": "kube-controller-manager", "scheduler": "kube-scheduler"}
"""Who leads in place of which part."""
RESOURCE, NAMESPACE = "leases.coordination.k8s.io", "kube-system"


class Holders:
    """Holds and renews the leases of an API server of this host name, and of the parts that run beside it."""

    def __init__(self, operations: Operations, clock: Clock, host: str, without: frozenset[str]) -> None:
        self._operations = operations
        self._clock = clock
        self._kind = operations.registry.by_resource(RESOURCE)
        server_name = server_id(host)
        server = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host}
        self._leases = [_lease(server_name, server_name, SERVER_LEASE_S, server)]
        for part, name in LEADERS.items():
            if part not in without:
                self._leases.append(_lease(name, host, LEADER_LEASE_S))
        self._timer: Timer = clock.call_later(RENEWAL_S, self._renew)
        for lease in self._leases:
            self._hold(lease)

    async def stop(self) -> None:
        """Renew no more."""
        self._timer.cancel()

    def _renew(self) -> None:
        for lease in self._leases:
            self._hold(lease)
        self._timer = self._clock.call_later(RENEWAL_S, self._renew)

    def _hold(self, lease: Obj) -> None:
        """Take a lease, or renew it."""
        name, now = lease["metadata"]["name"], micro(self._clock.now())
        manager = "kube-apiserver" if name.startswith("apiserver-") else name
        options = Options(user=f"system:{manager}", field_manager=manager)
        spec = {**lease["spec"], "renewTime": now}
        try:
            found = self._operations.get(self._kind, NAMESPACE, name)
        except ApiError:
            fresh = spec if "labels" in lease["metadata"] else {**spec, "acquireTime": now, "leaseTransitions": 0}
            self._operations.create(self._kind, NAMESPACE, {**lease, "spec": fresh}, options=options)
            return
        renewed = {**found["spec"], "renewTime": now, "holderIdentity": spec["holderIdentity"]}
        self._operations.update(self._kind, NAMESPACE, name, {**found, "spec": renewed}, options=options)


def server_id(host: str) -> str:
    """Return the identity of the API server of a host."""
    return "apiserver-" + b32encode(hashlib.sha256(host.encode()).digest()[:16]).decode().rstrip("=").lower()


def _lease(name: str, holder: str, seconds: int, labels: dict[str, str] | None = None) -> Obj:
    meta = {"name": name, "namespace": NAMESPACE} | ({"labels": labels} if labels else {})
    spec = {"holderIdentity": f"{holder}_{uuid4()}", "leaseDurationSeconds": seconds}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
