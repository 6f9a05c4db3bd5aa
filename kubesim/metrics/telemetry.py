"""A cluster's monitoring: what its exporters and its Prometheus pods know, followed from the day one of them runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from urllib.parse import urlsplit

from kubesim.client import Client
from kubesim.clock import Clock, Timer
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import Board
from kubesim.informer import Informer, cancel
from kubesim.metrics import cadvisor
from kubesim.metrics.kube_state import KubeState, tables
from kubesim.metrics.metrics_server import MetricsServer
from kubesim.metrics.monitor import Monitor, Probe
from kubesim.metrics.servers import PrometheusServer, dcgm_exporter, state_exporter
from kubesim.network.dns import DOMAIN
from kubesim.network.fabric import REASONS, Fabric, Server
from kubesim.shell.errors import NetworkError

REFRESH_S = 1.0
"""Changes of the cluster are gathered this long before targets are looked for again."""
FORGET_S = 24 * 3600.0
RESOURCES = {
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "Service": "services",
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "ResourceQuota": "resourcequotas",
}
DISCOVERED = ("pods", "services", "endpoints", "nodes", "configmaps")
CONFIG_KEY = "prometheus.yml"


class Telemetry:
    """The monitoring of one cluster; it costs nothing until an exporter or a Prometheus pod starts."""

    def __init__(self, client: Client, clock: Clock, fabric: Fabric) -> None:
        self.state = KubeState()
        self._client = client
        self._clock = clock
        self._fabric = fabric
        self._informers: dict[str, Informer] = {}
        self._monitors: dict[str, tuple[Monitor, Obj]] = {}
        self._starting: asyncio.Task[None] | None = None
        self._refresh: Timer | None = None

    def servers(self, behaviour: str, pod: Obj, board: Callable[[], Board]) -> dict[int, Server]:
        """Return what a pod with the behaviour of an exporter listens with."""
        match behaviour:
            case "dcgm-exporter":
                return {9400: dcgm_exporter(board, self._clock.now)}
            case "kube-state-metrics":
                self._follow()
                return {8080: state_exporter(self.state)}
            case "metrics-server":
                return {10250: MetricsServer(self._client, self._clock, self._fabric)}
            case "prometheus":
                self._follow()
                return {9090: self._prometheus(pod)}
        return {}

    @property
    def following(self) -> bool:
        """Whether anything of the cluster is followed."""
        return self._starting is not None

    async def stop(self) -> None:
        """Follow the cluster no longer."""
        await cancel(self._starting)
        if self._refresh is not None:
            self._refresh.cancel()
        for informer in self._informers.values():
            await informer.stop()

    def _prometheus(self, pod: Obj) -> Server:
        monitor = Monitor(self._objects, self._probe)
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._monitors[key] = (monitor, pod)
        self._plan()
        return PrometheusServer(monitor, self._clock, self._look)

    def _objects(self, resource: str) -> Iterable[Obj]:
        informer = self._informers.get(resource)
        return informer.items() if informer is not None else ()

    def _follow(self) -> None:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())

    async def _start(self) -> None:
        kinds = {resource: kind for kind, resource in RESOURCES.items() if kind in tables()}
        for resource in dict.fromkeys((*kinds, *DISCOVERED)):
            informer = Informer(self._client, self._clock, resource)
            try:
                await informer.start()
            except ApiError:
                continue  # a cluster that joined nodes watch may let them see less
            self._informers[resource] = informer
            if resource in kinds:
                informer.add_handler(self._observer(kinds[resource]))
            if resource in DISCOVERED:
                informer.add_handler(lambda old, new: self._plan())
        self._look()

    def _observer(self, kind: str) -> Callable[[Obj | None, Obj | None], None]:
        def changed(old: Obj | None, new: Obj | None) -> None:
            found = new or old
            if found is not None:
                self.state.observe(kind, found, self._clock.now().timestamp(), deleted=new is None)

        return changed

    def _plan(self) -> None:
        if self._refresh is None:
            self._refresh = self._clock.call_later(REFRESH_S, self._look)

    def _look(self) -> None:
        """Bring every Prometheus up to date with its configuration and the cluster."""
        self._refresh = None
        now = self._clock.now().timestamp()
        self.state.forget(now - FORGET_S)
        running = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in self._objects("pods")}
        for key, (monitor, pod) in [*self._monitors.items()]:
            if running and key not in running:
                del self._monitors[key]
                continue
            text, rules_text = self._config(pod)
            monitor.configure(text, rules_text)
            monitor.refresh(now)

    def _config(self, pod: Obj) -> tuple[str, str]:
        """Return the configuration and the rules that a Prometheus pod mounts."""
        namespace = pod["metadata"]["namespace"]
        names = [volume["configMap"]["name"] for volume in pod["spec"].get("volumes") or () if "configMap" in volume]
        informer = self._informers.get("configmaps")
        found = [informer.get(namespace, name) for name in names] if informer is not None else []
        data = {key: text for obj in found if obj for key, text in (obj.get("data") or {}).items()}
        rules = next((text for key, text in data.items() if key != CONFIG_KEY and "groups:" in text), "")
        return data.get(CONFIG_KEY, ""), rules

    def _probe(self, url: str) -> Probe:
        """Return what answers at an address, in the words of Prometheus' client."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        try:
            address, port = self._place(host, port)
            server = self._fabric.find(address, port)
        except NetworkError as error:
            if error.kind == "timeout":
                return Probe(error=f'Get "{url}": context deadline exceeded')
            verb = f"lookup {host}" if error.kind == "nxdomain" else f"tcp {host}:{port}"
            return Probe(error=f'Get "{url}": dial {verb}: {REASONS[error.kind]}')
        exporter = getattr(server, "exporter", None) if parts.path == "/metrics" else None
        if parts.path == cadvisor.PATH and hasattr(server, "processes"):
            exporter = partial(cadvisor.series, server)
        if exporter is None:
            return Probe(error="server returned HTTP status 404 Not Found")
        return Probe(exporter)

    def _place(self, host: str, port: int) -> tuple[str, int]:
        """Return where a name and a port lead: through a service where it is one. Raises ``NetworkError``."""
        if host.replace(".", "").isdecimal():
            return host, port
        parts = host.removesuffix(f".{DOMAIN}").removesuffix(".svc").split(".")
        informer = self._informers.get("services")
        service = informer.get(parts[1], parts[0]) if informer is not None and len(parts) == 2 else None
        if service is None:
            raise NetworkError("nxdomain")
        name = next((p.get("name", "") for p in service["spec"].get("ports") or () if p["port"] == port), None)
        endpoints = self._informers["endpoints"].get(parts[1], parts[0]) or {}
        for subset in endpoints.get("subsets") or ():
            for item in subset.get("ports") or ():
                if item.get("name", "") == name and subset.get("addresses"):
                    return str(subset["addresses"][0]["ip"]), int(item["port"])
        raise NetworkError("refused")
