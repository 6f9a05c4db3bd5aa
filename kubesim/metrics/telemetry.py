"""A cluster's monitoring: what its exporters and its Prometheus pods know, followed from the day one of them runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from kubesim.client import Client, ObjectList, Reader, WatchEvent
from kubesim.clock import Clock, Timer
from kubesim.errors import ApiError, Obj
from kubesim.informer import Informer, cancel
from kubesim.kubelet.host import Node
from kubesim.metrics import cadvisor
from kubesim.metrics.api import FLAGS
from kubesim.metrics.kube_state import KubeState, tables
from kubesim.metrics.metrics_server import MetricsServer
from kubesim.metrics.servers import Monitor, Probe, PrometheusServer, dcgm_exporter, node_exporter, state_exporter
from kubesim.network.fabric import Fabric, Server
from kubesim.network.pods import PodNetwork
from kubesim.shell.errors import REASONS, NetworkError

REFRESH_S = 5.0
"""Changes of the cluster are gathered this long before targets are looked for again, as discovery/manager.go does."""
FORGET_S = 24 * 3600.0
POLICIES = "networkpolicies.networking.k8s.io"
DISCOVERED = ("pods", "services", "endpoints", "nodes", "configmaps", "namespaces", POLICIES)
ROLES = ("pods", "services", "endpoints", "nodes")
"""The resources among which a Prometheus looks for its targets."""
Reach = Callable[[Reader], PodNetwork]
"""Makes the network of a pod, which reads the cluster through what it is given."""


class Seen:
    """The followed part of a cluster, as its API would answer: who asks for a thousand targets costs nothing."""

    def __init__(self, informers: Mapping[str, Informer]) -> None:
        self._informers = informers

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object. Raises ``ApiError`` 404."""
        if resource not in self._informers:
            raise ApiError(404, "NotFound", f'{resource} "{name}" not found')
        return self._informers[resource].found(namespace, name)

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return every object of a resource; nobody asks for fewer."""
        return ObjectList(self._informers[resource].items() if resource in self._informers else [], "")

    def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Refuse: who follows a cluster does so by an informer."""
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def _flags(pod: Obj) -> dict[str, str]:
    """Return the flags that a Prometheus is given: ``--name=value``, or ``--name`` for ``true``."""
    words = [word for each in pod["spec"]["containers"] for word in each.get("args") or () if word.startswith("--")]
    pairs = (word.removeprefix("--").partition("=") for word in words)
    return {name: value if mark else "true" for name, mark, value in pairs}


def _mounts(pod: Obj) -> list[tuple[str, str]]:
    """Return namespace and name of the config maps that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    return [(pod["metadata"]["namespace"], each["configMap"]["name"]) for each in volumes if "configMap" in each]


def _kinds() -> dict[str, str]:
    """Return the kinds that metrics are made of, by resource."""
    return {table.resource: kind for kind, table in tables().items()}


CONFIG_KEY = "prometheus.yml"
UNKNOWN = {"nxdomain": "no such host", "again": "server misbehaving"}
"""How a Go program words that a name has no address."""


class Telemetry:
    """The monitoring of one cluster; it costs nothing until an exporter or a Prometheus pod starts."""

    def __init__(self, client: Client, clock: Clock, fabric: Fabric) -> None:
        self.state = KubeState()
        self._client = client
        self._clock = clock
        self._fabric = fabric
        self._informers: dict[str, Informer] = {}
        self._seen = Seen(self._informers)
        self._monitors: dict[str, tuple[Monitor, Obj, PodNetwork, dict[str, Probe]]] = {}
        self._sights: dict[str, Sight] = {}
        self._mounted: dict[tuple[str, ...], Obj] = {}
        self._starting: asyncio.Task[None] | None = None
        self._refresh: Timer | None = None
        self._looking: asyncio.Task[None] | None = None

    def servers(self, behaviour: str, pod: Obj, node: Node, api: Client, reach: Reach) -> dict[int, Server]:
        """Return what a pod with the behaviour of an exporter listens with; ``api`` has its account's rights."""
        match behaviour:
            case "dcgm-exporter":
                return {9400: dcgm_exporter(lambda: node.gpus.board, self._clock.now)}
            case "node_exporter":
                return {9100: node_exporter(node, self._clock.now)}
            case "kube-state-metrics":
                self._follow(api)
                kinds = _kinds()
                sight = self._sight(pod, api, kinds)
                return {8080: state_exporter(self.state, lambda: {kinds[resource] for resource in sight.seen})}
            case "metrics-server":
                return {10250: MetricsServer(self._client, self._clock, self._fabric)}
            case "prometheus":
                self._follow(api)
                return {9090: self._prometheus(pod, api, reach)}
        return {}

    @property
    def following(self) -> bool:
        """True once anything of the cluster is followed."""
        return self._starting is not None

    async def stop(self) -> None:
        """Follow the cluster no longer."""
        await cancel(self._starting)
        await cancel(self._looking)
        for sight in self._sights.values():
            await sight.stop()
        if self._refresh is not None:
            self._refresh.cancel()
        for informer in self._informers.values():
            await informer.stop()

    def _sight(self, pod: Obj, api: Client, resources: Iterable[str]) -> Sight:
        """Return what an exporter sees, looking anew where its container has begun anew."""
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if (old := self._sights.pop(key, None)) is not None:
            self._ending = asyncio.ensure_future(old.stop())
        self._sights[key] = sight = Sight(api, self._clock, resources, self._plan)
        return sight

    def _prometheus(self, pod: Obj, api: Client, reach: Reach) -> Server:
        answers: dict[str, Probe] = {}
        sight = self._sight(pod, api, ROLES)
        monitor = Monitor(
            lambda resource: self._objects(resource) if resource in sight.seen else (),
            lambda url: answers.get(url, Probe()),
        )
        monitor.server.started = self._clock.now().timestamp()
        monitor.server.flags = {**FLAGS, **_flags(pod)}
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._monitors[key] = (monitor, pod, reach(self._seen), answers)
        self._plan()

        def reload() -> None:
            monitor.configure(*self._config(pod), self._clock.now().timestamp())
            self._plan()

        return PrometheusServer(monitor, self._clock, reload)

    def _objects(self, resource: str) -> Iterable[Obj]:
        informer = self._informers.get(resource)
        return informer.items() if informer is not None else ()

    def _follow(self, api: Client) -> None:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start(api))

    async def _start(self, api: Client) -> None:
        kinds = _kinds()
        for resource in dict.fromkeys((*kinds, *DISCOVERED)):
            for client in (self._client, api):  # a node that has joined a cluster sees less than an account may
                with suppress(ApiError):
                    informer = Informer(client, self._clock, resource)
                    await informer.start()
                    self._informers[resource] = informer
                    break
            else:
                continue
            if resource in kinds:
                informer.add_handler(self._observer(kinds[resource]))
            if resource in DISCOVERED:
                informer.add_handler(lambda old, new: self._plan())
        self._begin_to_look()

    def _observer(self, kind: str) -> Callable[[Obj | None, Obj | None], None]:
        def changed(old: Obj | None, new: Obj | None) -> None:
            found = new or old
            if found is not None:
                self.state.observe(kind, found, self._clock.now().timestamp(), deleted=new is None)

        return changed

    def _plan(self) -> None:
        if self._refresh is None:
            self._refresh = self._clock.call_later(REFRESH_S, self._begin_to_look)

    def _begin_to_look(self) -> None:
        self._refresh = None
        if self._looking is not None and not self._looking.done():
            self._plan()
            return
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        """Bring every Prometheus up to date with its configuration and the cluster."""
        now = self._clock.now().timestamp()
        self.state.forget(now - FORGET_S)
        running = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in self._objects("pods")}
        for key in [key for key in self._sights if running and key not in running]:
            await self._sights.pop(key).stop()
        for key, (monitor, pod, network, answers) in [*self._monitors.items()]:
            if running and key not in running:
                del self._monitors[key]
                continue
            if "configmaps" not in self._informers:
                await self._read_config(pod)
            monitor.configure(*self._config(pod), now)
            targets = monitor.find()
            answers.clear()
            for url in dict.fromkeys(item.url for item in targets):
                answers[url] = await self._probe(network, url)
            monitor.refresh(now, targets)

    def _config(self, pod: Obj) -> tuple[str, str]:
        """Return the configuration and the rules that a Prometheus pod mounts."""
        informer = self._informers.get("configmaps")
        find = informer.get if informer is not None else lambda *name: self._mounted.get(name)
        found = [find(*name) for name in _mounts(pod)]
        data = {key: text for obj in found if obj for key, text in (obj.get("data") or {}).items()}
        rules = next((text for key, text in data.items() if key != CONFIG_KEY and "groups:" in text), "")
        return data.get(CONFIG_KEY, ""), rules

    async def _read_config(self, pod: Obj) -> None:
        """Read what a pod mounts, which its node may where it may follow nothing, and soon again."""
        for namespace, name in _mounts(pod):
            with suppress(ApiError, ConnectionError):
                self._mounted[namespace, name] = await self._client.get("configmaps", name, namespace)
        self._plan()

    async def _probe(self, network: PodNetwork, url: str) -> Probe:
        """Return what answers at an address, in the words of Prometheus' client."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        address = host
        try:
            address = (await network.resolve(host))[0]
            server = await network.find(address, port)
        except NetworkError as error:
            if error.kind == "timeout":
                return Probe(error=f'Get "{url}": context deadline exceeded')
            dialled = f"tcp {address}:{port}: {REASONS.get(error.kind, error.kind)}"
            if error.kind in UNKNOWN:
                asked = next(iter(network.config.servers), "")
                dialled = f"tcp: lookup {host} on {asked}:53: {UNKNOWN[error.kind]}"
            return Probe(error=f'Get "{url}": dial {dialled}')
        exporter = getattr(server, "exporter", None) if parts.path == "/metrics" else None
        if parts.path == cadvisor.PATH and hasattr(server, "processes"):
            exporter = partial(cadvisor.series, server)
        if exporter is None:
            return Probe(error="server returned HTTP status 404 Not Found")
        return Probe(exporter)


AGAIN_S = 30.0


class Sight:
    """Asks for each resource until it may be listed; from then on its cache goes on, as a reflector's does."""

    def __init__(self, api: Client, clock: Clock, resources: Iterable[str], more: Callable[[], None]) -> None:
        """``more`` is called where something is seen that was not before."""
        self.seen: set[str] = set()
        self._api = api
        self._clock = clock
        self._more = more
        self._task = asyncio.ensure_future(self._look([*resources]))

    async def stop(self) -> None:
        """Ask no more."""
        await cancel(self._task)

    async def _look(self, wanted: list[str]) -> None:
        while wanted := [resource for resource in wanted if not await self._lists(resource)]:
            await self._clock.sleep(AGAIN_S)

    async def _lists(self, resource: str) -> bool:
        try:
            await self._api.list(resource)
        except ApiError as error:
            return error.code == 404  # a resource that the cluster does not have will not be missed
        except ConnectionError:
            return False
        self.seen.add(resource)
        self._more()
        return True
