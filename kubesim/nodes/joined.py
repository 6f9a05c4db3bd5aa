"""Simulated nodes in a cluster that is not kubesim's: their start, their service, and their going without a trace."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from kubesim import kubelet
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import Kubelets
from kubesim.kubelet.announce import Announcer
from kubesim.kubelet.machines import Machines
from kubesim.listener import Listener
from kubesim.network.door import Door
from kubesim.network.fabric import Fabric
from kubesim.nodes import account, certificates, registration, removal
from kubesim.nodes.access import Access, load_chain
from kubesim.nodes.account import NAMESPACE, ROLES, Group
from kubesim.nodes.certificates import NotSigned, Renewal, end_of
from kubesim.nodes.mirror import Mirror, SplitClient
from kubesim.nodes.registration import Wanted
from kubesim.nodes.server import Guard, KubeletServer
from kubesim.overhttp import HttpClient
from kubesim.pki import CertificateAuthority

AGENT = "kubelet/v1.34.4 (linux/amd64) kubesim"
CLIENT_SECONDS, SERVING_SECONDS = 30.0, 10.0
REMOVAL_SECONDS = 20.0
AUTHORITIES = "extension-apiserver-authentication"
WIDER = (
    "%s: so the nodes work with the service account %s/%s, which has the rights of the role system:node on every "
    "object of the cluster, where a certificate would confine each node to its own"
)
log = logging.getLogger("kubesim.nodes")


class JoinError(Exception):
    """The nodes cannot join; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the kubelets of this process are reached: one bound socket for each node."""

    sockets: list[Listener]

    @property
    def ports(self) -> list[int]:
        """Return the ports, in the order of the nodes."""
        return [int(found.getsockname()[1]) for found in self.sockets]


@dataclass
class JoinedNode:
    """One node that has joined."""

    name: str
    client: HttpClient
    kubelets: Kubelets
    announcer: Announcer
    server: KubeletServer
    serving: ssl.SSLContext
    renewal: Renewal | None = None

    async def stop(self) -> None:
        """Serve no more; what the API shows stays as it is."""
        if self.renewal is not None:
            await self.renewal.stop()
        await self.announcer.stop()
        await self.kubelets.stop()
        await self.server.stop()


@dataclass
class Joined:
    """The nodes of one group. ``own``: whether we make the group's account, or run with one that is there."""

    access: Access
    wanted: Wanted
    place: Place
    clock: Clock
    own: bool = True
    nodes: list[JoinedNode] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody else has removed the last of the nodes."""
    fabric: Fabric = field(default_factory=Fabric)

    def __post_init__(self) -> None:
        self._clients: list[HttpClient] = []
        self._pods: dict[str, HttpClient] = {}
        self._peers: dict[str, Machines] = {}
        self._machines: Obj = {}
        self._owner = self._opened(self.access)
        self._network = self._owner
        self._mirror = Mirror(self._network, self.clock)
        self._authorities = b""
        self._door = self.fabric.door = Door(self.access.server, self.access.ca)
        self._wider: Callable[[], HttpClient] | None = None
        self._ends: dict[str, datetime] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Remove what an earlier run left, then join. Raises JoinError, ``ApiError`` and ``ConnectionError``."""
        await removal.requests(self._owner, self._group, await removal.nodes(self._owner, self._group))
        names = self.wanted.names(self.clock.now())
        for name in names:  # what follows ends the pods of these nodes, and has certificates in their names
            await registration.check_free(self._owner, name, self._group)
        await removal.requests(self._owner, self._group, names)
        role = await self._account()
        self._authorities = await self._client_authorities()
        self._machines = self.wanted.machines(self.clock.now())
        wanted = self.wanted.objects(self.place.ports, role, self.clock.now())
        for index, (node, sock) in enumerate(zip(wanted, self.place.sockets, strict=True)):
            await self._join(index, node, sock)

    async def stop(self) -> None:
        """Leave: stop everything and remove it, unless somebody else has begun with that."""
        await asyncio.gather(*self._leaving, *(node.stop() for node in self.nodes))
        await self._mirror.stop()
        try:
            if not self.lost.is_set():
                async with asyncio.timeout(REMOVAL_SECONDS):
                    await self._remove()
        except (ApiError, ConnectionError, TimeoutError) as error:
            log.error(
                "not everything could be removed (%s); run kubesim nodes --remove", error or "no answer in time"
            )
        finally:
            await self._door.close()
            for client in self._clients:
                await client.close()

    async def _remove(self) -> None:
        await removal.nodes(self._owner, self._group)
        for node in self.nodes:
            await removal.belongings(node.client, node.name)
        await removal.requests(self._owner, self._group, self.wanted.names(self.clock.now()))
        if self.own:
            await removal.rights(self._owner, self._group)

    @property
    def _group(self) -> Group:
        return self.wanted.group

    async def _account(self) -> Obj | None:
        """Make the account of the group or take the one that is there; returns what is to own the nodes."""
        if not self.own:
            with suppress(ApiError):
                return await self._owner.get(ROLES, self._group.account)
            return None
        role = await account.make(self._owner, self._group)
        self._network = self._as_account("kubesim")
        self._mirror = Mirror(self._network, self.clock)
        return role

    def _opened(self, access: Access, agent: str = "kubesim") -> HttpClient:
        self._clients.append(access.client(self.clock, agent))
        return self._clients[-1]

    def _as_account(self, agent: str) -> HttpClient:
        tokens = account.Tokens(self._owner, self._group.account, self.clock)
        return self._opened(self.access.as_bearer(tokens), agent)

    def _as_pod(self, node: Client, pod: Obj) -> HttpClient:
        """Return the client of a pod's account: one for each pod."""
        uid = pod["metadata"]["uid"]
        if uid not in self._pods:
            self._pods[uid] = self._opened(self.access.as_bearer(account.tokens_of(pod, node, self.clock)))
        return self._pods[uid]

    async def _client_authorities(self) -> bytes:
        """Return the authorities whose client certificates the API server shows to kubelets."""
        try:
            found = await self._network.get("configmaps", AUTHORITIES, NAMESPACE)
        except ApiError as error:
            log.warning("%s; clients with certificates are taken for those of the API server's authority", error)
            return self.access.ca
        return str((found.get("data") or {}).get("client-ca-file") or "").encode() or self.access.ca

    async def _join(self, index: int, node: Obj, sock: Listener) -> None:
        name = node["metadata"]["name"]
        client = await self._node_client(name)
        await removal.belongings(client, name)
        await registration.register(client, node, self._group)
        split, only = SplitClient(client, self._mirror, self._as_pod), f"metadata.name={name}"
        kubelets = await kubelet.start(
            split,
            self.clock,
            name,
            state={key: on for key, on in self._machines.items() if key.endswith(f"/{name}")},
            fabric=self.fabric,
            selector=f"spec.nodeName={name}",
            cidr=registration.cidr(self._group, index),
            foreign=True,
        )
        self._peers[name], kubelets.machines.peers = kubelets.machines, self._peers
        announcer = Announcer(split, self.clock, [name], fresh=[name], selector=only)
        announcer.on_removal, announcer.on_doubt = self._removed, kubelets.doubt
        server = KubeletServer(name, kubelets, Guard(lambda: client, self.clock, name), self.clock)
        joined = JoinedNode(name, client, kubelets, announcer, server, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.nodes.append(joined)
        self._show(joined.serving, await self._serving(client, name))
        await server.start(sock, joined.serving)
        await announcer.start()
        if self._wider is None:
            joined.renewal = Renewal(self.clock, self._ends[name], lambda: self._renew(joined))

    def _removed(self, name: str) -> None:
        """End a node that somebody has deleted, as the machine behind it would be; the others go on."""
        log.warning("the node %s was removed by somebody else", name)
        gone = [node for node in self.nodes if node.name == name]
        self.nodes = [node for node in self.nodes if node.name != name]
        for node in gone:
            task = asyncio.ensure_future(node.stop())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        if not self.nodes:
            self.lost.set()

    async def _node_client(self, name: str) -> HttpClient:
        """Return a client with a node's own rights, or with wider ones where there are no certificates for nodes."""
        if self._wider is not None:
            return self._wider()
        try:
            pem = await self._certificate(name)
        except NotSigned as error:
            return await self._widened(str(error))
        return self._opened(self.access.as_holder(pem), AGENT)

    async def _certificate(self, name: str) -> bytes:
        """Return a new client certificate of a node, and note when it ends. Raises NotSigned."""
        request = certificates.client_request(self._group.request(name, "client"), name, self._group.labels)
        pem = await certificates.obtain(self._owner, self._owner, request, CLIENT_SECONDS, patient=True)
        self._ends[name] = end_of(pem)
        return pem

    async def _renew(self, node: JoinedNode) -> datetime:
        """Get new certificates for a node; returns when the client's ends. Raises NotSigned."""
        await removal.requests(self._owner, self._group, [node.name])
        pem = await self._certificate(node.name)
        node.client.renew(self.access.as_holder(pem).context())
        load_chain(node.serving, await self._serving(node.client, node.name))
        return self._ends[node.name]

    async def _widened(self, why: str) -> HttpClient:
        if not self.own:
            raise JoinError(f"{why}; approve it, or see README.md for clusters that sign no certificates for nodes")
        await account.widen(self._owner, self._group)
        log.warning(WIDER, why, NAMESPACE, self._group.account)
        self._wider = lambda: self._as_account(AGENT)
        return self._wider()

    async def _serving(self, client: Client, name: str) -> bytes:
        """Return what a kubelet shows (PEM, with its key): a certificate of the cluster, or one of its own."""
        hosts = [self.wanted.address, name]
        request = certificates.serving_request(self._group.request(name, "serving"), name, self._group.labels, hosts)
        try:
            return await certificates.obtain(client, self._owner, request, SERVING_SECONDS, patient=False)
        except (NotSigned, ApiError) as error:
            log.info("%s; the kubelet of %s signs its certificate itself", error, name)
            issued = CertificateAuthority.create(self.clock.now()).issue_server(hosts, self.clock.now())
            return issued.certificate + b"\n" + issued.key

    def _show(self, context: ssl.SSLContext, pem: bytes) -> None:
        """Make a kubelet's TLS context: its certificate, and the authorities of those who come with one."""
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_chain(context, pem)
        if self._authorities:
            context.load_verify_locations(cadata=self._authorities.decode())
            context.verify_mode = ssl.CERT_OPTIONAL


async def remove(access: Access, group: Group, clock: Clock) -> list[str]:
    """Remove what a group has left in a cluster; returns the names of its nodes. Raises what the API does."""
    client = access.client(clock)
    try:
        names = await removal.nodes(client, group)
        await removal.requests(client, group, names)
        await removal.rights(client, group)
    finally:
        await client.close()
    return names
