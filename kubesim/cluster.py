"""One cluster: its store, API, access control, controllers, scheduler and nodes, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from urllib.parse import urlsplit

import orjson

from kubesim import controllers, kubeconfig, pools, scheduler, storage_classes
from kubesim.addresses import Addresses
from kubesim.api.backend import Backend
from kubesim.api.callouts import Caller
from kubesim.api.durations import parse_time
from kubesim.api.fairness import Fairness
from kubesim.api.http import ApiServer
from kubesim.api.operations import Operations
from kubesim.auth.authn import Authenticator
from kubesim.auth.certificates import Certifier
from kubesim.auth.escalation import Escalation
from kubesim.auth.guard import Guard
from kubesim.auth.noderestriction import restrict
from kubesim.auth.nodes import NodeAuthorizer
from kubesim.auth.rbac import Authorizer
from kubesim.auth.reviews import Reviewer
from kubesim.auth.tokens import ISSUER, TokenSigner
from kubesim.availability import Availability
from kubesim.changelog import ChangeLogError, Changes, State
from kubesim.clock import Clock
from kubesim.cloud.api import Cloud
from kubesim.clusterfile import ClusterFile
from kubesim.custom.definitions import Definitions
from kubesim.errors import Obj
from kubesim.holders import Holders
from kubesim.inprocess import InProcessClient
from kubesim.kubelet.images import STANDARD, Catalogue
from kubesim.located import FileError
from kubesim.nodes.practice import Nodes
from kubesim.pki import CertificateAuthority
from kubesim.pools import Pool
from kubesim.saved import VERSION, Saved, key, key_of_object, lines
from kubesim.schema.registry import Kind, Registry
from kubesim.seed import Seeder
from kubesim.standing import Standing
from kubesim.store import Event, Store
from kubesim.times import micro, parse

PARTS = ("scheduler", "controllers", "kubelets")
ADMIN_USER = "kubernetes-admin"
RBAC_RESOURCES = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")


@dataclass(slots=True)
class ClusterSpec:
    """What a cluster was asked to be."""

    name: str
    created_at: datetime
    nodes: int = 3
    gpus: int = 8
    product: str = "H100"
    deadline: datetime | None = None
    images: list[Obj] = field(default_factory=list)
    """The images that its registries serve beside those of the catalogue (``kubelet/imagefile.py``)."""
    without: frozenset[str] = frozenset()
    """The parts that are left out, for others to run in their place: some of ``PARTS``."""

    def dump(self) -> Obj:
        """Return the specification as JSON."""
        asked = {name: getattr(self, name) for name in ("name", "nodes", "gpus", "product")}
        times = {"createdAt": micro(self.created_at), "deadline": micro(self.deadline) if self.deadline else None}
        return {**asked, **times, **({"images": self.images} if self.images else {})}

    @classmethod
    def load(cls, saved: Obj) -> ClusterSpec:
        """Return the specification that ``dump`` wrote; raises ValueError for another."""
        asked = {name: saved[name] for name in ("name", "nodes", "gpus", "product")}
        deadline = parse_time(saved["deadline"])
        return cls(created_at=parse(saved["createdAt"]), deadline=deadline, images=saved.get("images") or [], **asked)


class Runnable(Protocol):
    """A part that runs until it is stopped."""

    async def stop(self) -> None:
        """End it."""


class StorePolicies:
    """Roles, bindings and accounts, straight from the store."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.revision = 0
        self._store = store
        self._registry = registry
        for resource in RBAC_RESOURCES:
            store.subscribe(registry.by_resource(f"{resource}.rbac.authorization.k8s.io"), self._changed)

    def _changed(self, event: Event) -> None:
        self.revision += 1

    def find(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return one object, or None."""
        return self._store.get(self._registry.by_resource(resource), namespace, name)

    def every(self, resource: str, namespace: str = "") -> Iterable[Obj]:
        """Return all objects of a resource in a namespace."""
        return self._store.list(self._registry.by_resource(resource), namespace)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What only this cluster knows: the admin's token and the key that signs service account tokens."""

    admin_token: str
    signer: TokenSigner

    @classmethod
    def create(cls, issuer: str = ISSUER) -> Secrets:
        """Make new ones."""
        signer = TokenSigner.create(issuer)
        return cls(signer.static_token(ADMIN_USER), signer)

    def dump(self) -> Obj:
        """Return them for the snapshot."""
        key, issuer = self.signer.pem().decode(), self.signer.issuer
        return {"adminToken": self.admin_token, "signerKey": key, "issuer": issuer}

    @classmethod
    def load(cls, saved: Obj) -> Secrets:
        """Return those that ``dump`` wrote; before there were issuers, all clusters had the same."""
        signer = TokenSigner.from_pem(saved["signerKey"].encode(), saved.get("issuer", ISSUER))
        return cls(saved["adminToken"], signer)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise ChangeLogError where what was kept is not what is expected: another program wrote it, or another hand."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ChangeLogError(f"what was kept is no cluster that this program can read: {error!r}") from error


def pools_of(spec: ClusterSpec, file: ClusterFile | None, *, practice: bool) -> tuple[Pool, ...]:
    """Return what nodes a fresh cluster has."""
    if file and file.pools is not None:
        return file.pools
    asked = (spec.nodes, spec.gpus, spec.product)
    return pools.practice(*asked) if practice else (Pool(*asked),)


class Cluster:
    """A running cluster. Make it with ``create`` or ``restore``, end it with ``stop``."""

    def __init__(self, spec: ClusterSpec, keys: Secrets, clock: Clock, server: str, ca: CertificateAuthority) -> None:
        self.spec = spec
        self.server = server
        self.clock = clock
        self._keys = keys
        self._ca = ca.pem
        self.store = Store(clock)
        self.operations = Operations(self.store, clock)
        self._definitions = Definitions(self.operations)
        self._addresses = Addresses(self.operations)
        self._parts: list[Runnable] = []
        self.changes = Changes()
        self.guard = Guard(self.store)
        self.signer = keys.signer
        catalogue = Catalogue(spec.images) if spec.images else STANDARD
        self.nodes = Nodes(self.operations, self.store, clock, keys.signer, server, ca.pem, catalogue)
        self._caller = Caller(self.store, self.operations.registry, self.nodes.fabric, clock)
        self.operations.ask = self._caller.ask
        policies = StorePolicies(self.store, self.operations.registry)
        own = {"name": spec.name, "endpoint": urlsplit(server).hostname or "", "ca": ca.pem}
        own["created"] = micro(spec.created_at)
        self._cloud = Cloud(own, clock, self.nodes, self.operations.registry, self.nodes.fabric.firewall)
        authorizer = Authorizer(policies, NodeAuthorizer(policies).refusal, self._cloud.iam.refusal)
        shared = keys.signer.issuer if keys.signer.issuer != ISSUER else ""
        if urlsplit(server).path.strip("/"):
            shared = server
        self._certifier = Certifier(ca.sign, authorizer, shared)
        self.operations.allows = authorizer.allows
        self.operations.checks += [Escalation(authorizer).check, self._certifier.check, restrict]
        authenticator = Authenticator(keys.signer, keys.admin_token, policies, shared)
        self._seeder = Seeder(self.operations, ca.pem)
        self._standing = Standing(self.operations)
        self.api = ApiServer(
            Backend(
                store=self.store,
                operations=self.operations,
                clock=clock,
                authenticator=authenticator,
                authorizer=authorizer,
                reviewer=Reviewer(authenticator, authorizer),
                signer=keys.signer,
                guard=self.guard,
                nodes=self.nodes,
                cloud=self._cloud,
                address=server.removeprefix("https://").partition("/")[0],
                fairness=Fairness(clock),
            )
        )

    @classmethod
    async def create(
        cls,
        spec: ClusterSpec,
        clock: Clock,
        server: str,
        ca: CertificateAuthority,
        file: ClusterFile | None = None,
        *,
        keep: bool = False,
        issuer: str = ISSUER,
    ) -> Cluster:
        """Start a fresh cluster; raises FileError for what ``file`` asks for in vain.

        ``keep``: what changes is noted in ``changes`` from the first object on. ``issuer``: of its accounts' tokens.
        """
        if file:
            spec.images = [*spec.images, *file.images]
        cluster = cls(spec, Secrets.create(issuer), clock, server, ca)
        if keep:
            cluster._note_changes()
            cluster._note_spec()
        cluster._seeder.follow_namespaces()
        cluster._standing.follow()
        cluster._standing.plant()
        cluster._seeder.plant()
        cluster._addresses.plant()
        practice = issuer != ISSUER  # and not an oracle
        wanted = pools_of(spec, file, practice=practice)
        seed = spec.name if practice else ""
        await pools.create(cluster._client("kubelet"), wanted, clock.now(), seed)
        cluster._cloud.note_pools()
        if practice and any(pool.profile == "gke" for pool in wanted):
            await storage_classes.create(cluster._client("addon-manager"))
        state = pools.machines(wanted, clock.now(), seed, file.present if file else ())
        await cluster._start(state)
        if file:
            await cluster._take_in(file)
        return cluster

    async def _take_in(self, file: ClusterFile) -> None:
        """Create the objects of a file."""
        try:
            file.create(self.operations)
        except FileError:
            await self.stop()
            raise

    @classmethod
    async def restore(
        cls,
        state: State,
        clock: Clock,
        server: str,
        ca: CertificateAuthority,
        *,
        settled: bool = False,
        path: str = "",
    ) -> Cluster:
        """Start a cluster from all that its ``changes`` ever were; raises ChangeLogError if they are no cluster.

        ``settled``: nothing was left to be done in it. ``path``: where it is found below ``server`` if its tokens do
        not tell it from others.
        """
        with _readable():
            saved = Saved.read(state)
            spec = ClusterSpec.load(saved.cluster["spec"])
            keys = Secrets.load(saved.cluster["secrets"])
            place = server + path if keys.signer.issuer == ISSUER else server
            cluster = cls(spec, keys, clock, place, ca)
            cluster.store.load((saved.version, saved.objects), cluster._kinds)
            cluster._cloud.restore(saved.cloud)
        cluster._note_changes()
        cluster._seeder.follow_namespaces()
        cluster._standing.follow()
        cluster._standing.plant()
        await cluster._start(saved.kubelets, settled=settled)
        return cluster

    def _note_changes(self) -> None:
        """Note from now on what changes."""
        self.changes.follow(self._other_changes)
        self.nodes.touch = self._cloud.touch = self.changes.touch
        self.store.subscribe(None, self._note_object)

    def _note_object(self, event: Event) -> None:
        self.changes.note(key_of_object(event), b"" if event.type == "DELETED" else event.object.raw)
        self.changes.note(VERSION, b"%d" % self.store.resource_version)

    def _note_spec(self) -> None:
        self.changes.note(key("cluster"), orjson.dumps({"spec": self.spec.dump(), "secrets": self._keys.dump()}))

    def _other_changes(self) -> State:
        """Return what has changed besides objects; it is taken together with them."""
        return lines("kubelet", self.nodes.changes()) | lines("cloud", self._cloud.state.changes())

    def _kinds(self, objects: Mapping[str, Iterable[Obj]]) -> dict[str, Kind]:
        """Return the kinds of a snapshot's tables; those of custom objects are learnt from their definitions."""
        self._definitions.restore(objects)
        return {kind.table: kind for kind in self.operations.registry.stored()}

    async def _start(self, state: Obj, *, settled: bool = False) -> None:
        """Start the parts; they see each other only through the API."""
        if "kubelets" not in self.spec.without:
            await self.nodes.start(state)
        available = Availability(self.operations, self.store, self.api.aggregator)
        available.start()
        self._parts.append(available)
        if "scheduler" not in self.spec.without:
            self._parts.append(await scheduler.start(self._client("kube-scheduler"), self.clock))
        if "controllers" in self.spec.without:
            return
        host = f"{self.spec.name}-control-plane"
        self._parts.append(Holders(self.operations, self.clock, host, self.spec.without))
        manager = self._client("kube-controller-manager")
        keys = controllers.Keys(self._ca.decode(), self._certifier, self.signer)
        usage = self.api.aggregator.pod_usage
        self._parts.append(await controllers.start(manager, self.clock, keys, usage, settled=settled))

    def _client(self, user: str) -> InProcessClient:
        """Return the API as one of the control plane's programs sees it."""
        return InProcessClient(self.operations, self.store, user)

    async def stop(self) -> None:
        """End every stream and every part."""
        self.guard.stop()
        self._standing.stop()
        for part in reversed(self._parts):
            await part.stop()
        await self.nodes.stop()

    def let_out(self) -> None:
        """Let webhooks be anywhere that this machine reaches."""
        self._caller.outside = True

    def set_deadline(self, deadline: datetime | None) -> None:
        """Note when the cluster is to end."""
        self.spec.deadline = deadline
        self._note_spec()

    def admin_kubeconfig(self) -> str:
        """Return the administrator's kubeconfig as YAML."""
        return kubeconfig.render(
            name=self.spec.name,
            server=self.server,
            ca_pem=self._ca,
            user=f"{ADMIN_USER}@{self.spec.name}",
            token=self._keys.admin_token,
        )
