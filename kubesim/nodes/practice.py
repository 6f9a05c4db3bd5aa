"""A practice cluster's nodes: their kubelets run in this process and speak through the seam; others may join."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial

from kubesim import kubelet
from kubesim.api.backend import LogRequest
from kubesim.api.operations import Operations
from kubesim.auth.tokens import TokenSigner
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.inprocess import InProcessClient
from kubesim.kubelet import Kubelets
from kubesim.kubelet.announce import LEASE_NAMESPACE, Announcer
from kubesim.kubelet.images import Catalogue
from kubesim.kubelet.logs import LogArguments, limited
from kubesim.network.door import Door
from kubesim.network.fabric import Fabric
from kubesim.nodes.foreign import ForeignKubelets, command_path, log_path
from kubesim.store import Store
from kubesim.streaming.remote import Wanted
from kubesim.streaming.seam import Forward, Run, Unreached, ready


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
        kind = operations.registry.by_resource("nodes")
        self._foreign = ForeignKubelets(lambda name: operations.get(kind, "", name), self.fabric)
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
        await self.fabric.outside.close()

    def changes(self) -> Obj:
        """Return what the kubelets know beyond the API's objects, as far as it has changed since the last call."""
        return self._kubelets.changes() if self._kubelets is not None else {}

    async def read(self, pod: Obj, wanted: LogRequest) -> AsyncGenerator[bytes, None]:
        """Yield a container's log; a pod that no node has taken has an empty one, as upstream answers."""
        if not pod["spec"].get("nodeName"):
            return
        kubelets = self._own(pod)
        if kubelets is None:
            async with aclosing(self._foreign.read(pod, wanted)) as told:
                async for piece in told:
                    yield piece
            return
        place = wanted.namespace, wanted.pod, wanted.container
        arguments: LogArguments = {
            "previous": wanted.previous,
            "tail_lines": wanted.tail_lines,
            "since_time": wanted.since,
            "timestamps": wanted.timestamps,
            "limit_bytes": wanted.limit_bytes,
        }
        if why := kubelets.away(pod["spec"]["nodeName"]):
            raise ApiError(500, "", f'Get "{self._foreign.kubelet(pod).url(log_path(wanted))}": {why}')
        if not wanted.follow:
            yield kubelets.logs(*place, **arguments)
            return
        async for piece in limited(kubelets.follow(*place, **arguments), wanted.limit_bytes):
            yield piece

    def check(self, pod: Obj) -> None:
        """Raise ``ApiError`` where nobody knows the way to a pod's kubelet."""
        if self._own(pod) is None:
            self._foreign.kubelet(pod)

    def exec(
        self, pod: Obj, container: str, command: Sequence[str], wanted: Wanted
    ) -> AbstractAsyncContextManager[Run]:
        """Return what gets ready to run a command in a container."""
        kubelets = self._own(pod)
        if kubelets is None:
            return self._foreign.command("exec", pod, container, command, wanted)
        knock = partial(self._knock, kubelets, pod, "exec", command_path(container, command, wanted))
        return ready(lambda: kubelets.containers.exec(pod, container, command), wanted.check, knock)

    def attach(self, pod: Obj, container: str, wanted: Wanted) -> AbstractAsyncContextManager[Run]:
        """Return what gets ready to join a container's own process."""
        kubelets = self._own(pod)
        if kubelets is None:
            return self._foreign.command("attach", pod, container, (), wanted)
        knock = partial(self._knock, kubelets, pod, "attach", command_path(container, (), wanted))
        return ready(lambda: kubelets.containers.attach(pod, container), wanted.check, knock)

    def forward(self, pod: Obj, lost: Callable[[], object]) -> AbstractAsyncContextManager[Forward]:
        """Return what gets ready to reach a pod's ports."""
        kubelets = self._own(pod)
        if kubelets is None:
            return self._foreign.forward(pod, lost)
        return ready(lambda: kubelets.containers.forward(pod), partial(self._knock, kubelets, pod, "portForward"))

    def _knock(self, kubelets: Kubelets, pod: Obj, verb: str, rest: str = "") -> None:
        """Raise ``Unreached`` where a pod's kubelet does not run."""
        if why := kubelets.away(pod["spec"]["nodeName"]):
            meta = pod["metadata"]
            url = self._foreign.kubelet(pod).url(f"/{verb}/{meta['namespace']}/{meta['name']}{rest}")
            raise Unreached(f"error dialing backend: {why}", f'Post "{url}": {why}')

    def _own(self, pod: Obj) -> Kubelets | None:
        """Return our kubelets, if the pod's is one of them."""
        try:
            if self._kubelets is not None:
                self._kubelets.endpoint(pod["spec"]["nodeName"])
        except KeyError:
            return None
        return self._kubelets
