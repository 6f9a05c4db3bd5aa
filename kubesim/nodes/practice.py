"""A practice cluster's nodes: their kubelets run in this process and speak through the seam."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from kubesim import kubelet
from kubesim.api.backend import LogRequest
from kubesim.api.operations import Operations
from kubesim.auth.tokens import TokenSigner
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.inprocess import InProcessClient
from kubesim.kubelet import Kubelets
from kubesim.kubelet.announce import Announcer
from kubesim.kubelet.node import LEASE_NAMESPACE
from kubesim.network.door import Door
from kubesim.network.fabric import Fabric
from kubesim.store import Store
from kubesim.streaming.seam import Containers, Forward, Refused, Run


class Nodes:
    """The nodes of one cluster, and the logs of what runs on them."""

    def __init__(
        self, operations: Operations, store: Store, clock: Clock, signer: TokenSigner, server: str, ca_pem: bytes
    ) -> None:
        """Programs in pods reach the API at ``server``, whose certificate ``ca_pem`` has signed."""
        self._client = InProcessClient(operations, store, user="kubelet", signer=signer)
        self._clock = clock
        self._kubelets: Kubelets | None = None
        self._announcer: Announcer | None = None
        self.touch: Callable[[], None] = lambda: None
        """Called when there is something to keep that no change of an object tells of."""
        self.fabric = Fabric()
        self.fabric.door = self._door = Door(server, ca_pem)

    async def start(self, state: Obj) -> None:
        """Run the kubelets of all nodes there are; ``state`` is all that ``changes`` returned."""
        names = [obj["metadata"]["name"] for obj in (await self._client.list("nodes")).items]
        leases = await self._client.list("leases.coordination.k8s.io", LEASE_NAMESPACE)
        known = {obj["metadata"]["name"] for obj in leases.items}
        self._kubelets = await kubelet.start(self._client, self._clock, *names, state=state, fabric=self.fabric)
        self._kubelets.touch = lambda: self.touch()
        self._announcer = Announcer(self._client, self._clock, names, fresh=[n for n in names if n not in known])
        await self._announcer.start()

    async def stop(self) -> None:
        """Stop the kubelets; the pods stay as the API shows them."""
        if self._announcer is not None:
            await self._announcer.stop()
        if self._kubelets is not None:
            await self._kubelets.stop()
        await self._door.close()

    def changes(self) -> Obj:
        """Return what the kubelets know beyond the API's objects, as far as it has changed since the last call."""
        return self._kubelets.changes() if self._kubelets is not None else {}

    async def read(self, pod: Obj, wanted: LogRequest) -> AsyncIterator[bytes]:
        """Yield a container's log; a pod that no node has taken has an empty one, as upstream answers."""
        if self._kubelets is None or not pod["spec"].get("nodeName"):
            return
        arguments = {
            "previous": wanted.previous,
            "tail_lines": wanted.tail_lines,
            "since_time": wanted.since,
            "timestamps": wanted.timestamps,
            "limit_bytes": wanted.limit_bytes,
        }
        if not wanted.follow:
            yield self._kubelets.logs(wanted.namespace, wanted.pod, wanted.container, **arguments)  # type: ignore[arg-type]
            return
        left = wanted.limit_bytes
        pieces = self._kubelets.follow(wanted.namespace, wanted.pod, wanted.container, **arguments)  # type: ignore[arg-type]
        async for piece in pieces:
            yield piece if left is None else piece[:left]
            left = None if left is None else left - len(piece)
            if left is not None and left <= 0:
                return

    def exec(self, pod: Obj, container: str, command: Sequence[str]) -> Run:
        """Return what runs a command in a container. Raises ``Refused``."""
        return self._containers.exec(pod, container, command)

    def attach(self, pod: Obj, container: str) -> Run:
        """Return what joins a container's own process. Raises ``Refused``."""
        return self._containers.attach(pod, container)

    def forward(self, pod: Obj) -> Forward:
        """Return what reaches a pod's ports. Raises ``Refused``."""
        return self._containers.forward(pod)

    @property
    def _containers(self) -> Containers:
        if self._kubelets is None:
            raise Refused(404, "pod does not exist")
        return self._kubelets.containers
