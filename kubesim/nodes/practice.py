"""A practice cluster's nodes: their kubelets run in this process and speak through the seam.

Other nodes may join; nothing leads from here to their kubelets, whose addresses whoever writes a Node would choose.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from kubesim import kubelet
from kubesim.api.backend import LogRequest
from kubesim.api.kubelets import Target, command_path, kubelet_of, log_path
from kubesim.api.operations import Operations
from kubesim.auth.tokens import TokenSigner
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.inprocess import InProcessClient
from kubesim.kubelet import Kubelets
from kubesim.kubelet.access import Access
from kubesim.kubelet.announce import LEASE_NAMESPACE, Announcer
from kubesim.kubelet.images import Catalogue
from kubesim.kubelet.logs import LogArguments, limited
from kubesim.network.door import Door
from kubesim.network.fabric import Fabric
from kubesim.store import Store
from kubesim.streaming.remote import Wanted
from kubesim.streaming.seam import Forward, Run, Unreached


class Nodes:
    """The nodes of one cluster, and the logs of what runs on them."""

    def __init__(
        self,
        operations: Operations,
        store: Store,
        clock: Clock,
        signer: TokenSigner,
        server: str,
        ca_pem: bytes,
        catalogue: Catalogue,
    ) -> None:
        """Programs in pods reach the API at ``server``, whose certificate ``ca_pem`` has signed."""
        self._catalogue = catalogue
        self._client = InProcessClient(operations, store, user="kubelet", signer=signer)
        self._clock = clock
        self._kubelets: Kubelets | None = None
        self._announcer: Announcer | None = None
        self.touch: Callable[[], None] = lambda: None
        """Called when there is something to keep that no change of an object tells of."""
        self.fabric = Fabric()
        self._operations, self._store = operations, store
        self.fabric.door = self.door = Door(server, ca_pem)

    async def start(self, state: Obj) -> None:
        """Run the kubelets of all nodes there are; ``state`` is all that ``changes`` returned."""
        names = [obj["metadata"]["name"] for obj in (await self._client.list("nodes")).items]
        leases = await self._client.list("leases.coordination.k8s.io", LEASE_NAMESPACE)
        known = {obj["metadata"]["name"] for obj in leases.items}
        self._kubelets = await kubelet.start(
            self._client, self._clock, *names, state=state, fabric=self.fabric, catalogue=self._catalogue
        )
        self._kubelets.touch = lambda: self.touch()
        self._announcer = Announcer(self._client, self._clock, names, fresh=[n for n in names if n not in known])
        self._announcer.on_doubt = self._kubelets.doubt
        await self._announcer.start()

    async def stop(self) -> None:
        """Stop the kubelets; the pods stay as the API shows them."""
        if self._announcer is not None:
            await self._announcer.stop()
        if self._kubelets is not None:
            await self._kubelets.stop()
        await self.door.close()

    def listed(self) -> Iterable[Obj]:
        """Return the Node objects there are."""
        return self._store.list(self._operations.registry.by_resource("nodes"), "")

    async def add(self, node: Obj) -> None:
        """Let a new machine join."""
        assert self._kubelets is not None
        await self._kubelets.machines.add(node)

    async def remove(self, name: str) -> None:
        """Take a machine away, with its Node object."""
        if self._kubelets is not None:
            self._kubelets.machines.remove(name)
        with tolerating(404):
            await self._client.delete("nodes", name)

    def changes(self) -> Obj:
        """Return what the kubelets know beyond the API's objects, as far as it has changed since the last call."""
        return self._kubelets.changes() if self._kubelets is not None else {}

    async def read(self, pod: Obj, wanted: LogRequest) -> AsyncGenerator[bytes, None]:
        """Yield a container's log; a pod that no node has taken has an empty one, as upstream answers."""
        if not pod["spec"].get("nodeName"):
            return
        kubelets, why = self._own(pod), self._away(pod)
        if kubelets is None or why:
            raise ApiError(500, "", f'Get "{self._kubelet(pod).url(log_path(wanted))}": {why}')
        place = wanted.namespace, wanted.pod, wanted.container
        arguments: LogArguments = {
            "previous": wanted.previous,
            "tail_lines": wanted.tail_lines,
            "since_time": wanted.since,
            "timestamps": wanted.timestamps,
            "limit_bytes": wanted.limit_bytes,
        }
        if not wanted.follow:
            yield kubelets.logs(*place, **arguments)
            return
        async for piece in limited(kubelets.follow(*place, **arguments), wanted.limit_bytes):
            yield piece

    def check(self, pod: Obj) -> None:
        """Raise ``ApiError`` where nobody knows the way to a pod's kubelet."""
        if self._own(pod) is None:
            self._kubelet(pod)

    def exec(self, pod: Obj, container: str, command: Sequence[str], wanted: Wanted) -> Run:
        """Return what runs a command in a container."""
        reached = self._reached(pod, "exec", command_path(container, command, wanted))
        return reached.exec(pod, container, command)

    def attach(self, pod: Obj, container: str, wanted: Wanted) -> Run:
        """Return what joins a container's own process."""
        return self._reached(pod, "attach", command_path(container, (), wanted)).attach(pod, container)

    def forward(self, pod: Obj) -> Forward:
        """Return what reaches a pod's ports."""
        return self._reached(pod, "portForward").forward(pod)

    def _reached(self, pod: Obj, verb: str, rest: str = "") -> Access:
        """Return the containers of a pod's kubelet. Raises ``Unreached`` where it does not run, or not here."""
        kubelets, why = self._own(pod), self._away(pod)
        if kubelets is None or why:
            meta = pod["metadata"]
            url = self._kubelet(pod).url(f"/{verb}/{meta['namespace']}/{meta['name']}{rest}")
            raise Unreached(f"error dialing backend: {why}", f'Post "{url}": {why}')
        return kubelets.containers

    def _away(self, pod: Obj) -> str:
        """Return why a pod's kubelet cannot be asked; empty where it can."""
        kubelets = self._own(pod)
        if kubelets is None:
            return f"dial tcp {self._kubelet(pod).place}: connect: network is unreachable"
        return kubelets.away(pod["spec"]["nodeName"])

    def _kubelet(self, pod: Obj) -> Target:
        """Return where a pod's kubelet is. Raises ``ApiError``."""
        kind = self._operations.registry.by_resource("nodes")
        return kubelet_of(self._operations.get(kind, "", pod["spec"]["nodeName"]))

    def _own(self, pod: Obj) -> Kubelets | None:
        """Return our kubelets, if the pod's is one of them."""
        try:
            if self._kubelets is not None:
                self._kubelets.endpoint(pod["spec"]["nodeName"])
        except KeyError:
            return None
        return self._kubelets
