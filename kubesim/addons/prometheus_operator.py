"""The Prometheus operator: monitors and rules decide what its Prometheus scrapes and alerts.

It makes a StatefulSet, a service and a configuration for each Prometheus object; the jobs and relabelling rules are
those that the operator generates (version 0.86), as far as this Prometheus knows them.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from kubesim.addons.operator import Operator, ensure
from kubesim.api.selectors import from_struct
from kubesim.controllers.base import Context, Controller, owner_reference
from kubesim.errors import Obj
from kubesim.kubelet.duties import Post

GROUP = "monitoring.coreos.com"
SERVERS, SERVICES = f"prometheuses.{GROUP}", f"servicemonitors.{GROUP}"
PODS, RULES = f"podmonitors.{GROUP}", f"prometheusrules.{GROUP}"
IMAGE = "quay.io/prometheus/prometheus:v3.5.0"
META = "__meta_kubernetes_"


class PrometheusController(Controller):
    """Brings each Prometheus to what the monitors say that it selects."""

    source = "prometheus-controller"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._servers = self.informers[SERVERS]
        self._others = [self.informers[name] for name in (SERVICES, PODS, RULES, "namespaces")]

    def listen(self) -> None:
        """Watch what decides."""
        self.watch_own(self._servers)
        for informer in self._others:
            informer.add_handler(lambda old, new: self._all())

    def _all(self) -> None:
        for server in self._servers.items():
            self.queue.add(f"{server['metadata']['namespace']}/{server['metadata']['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Bring one Prometheus to what is asked for."""
        server = self._servers.get(namespace, name)
        if server is None or server["metadata"].get("deletionTimestamp"):
            return
        data = {"prometheus.yml": yaml.safe_dump(self._config(server), sort_keys=False)}
        if groups := self._groups(server):
            data["rules.yml"] = yaml.safe_dump({"groups": groups}, sort_keys=False)
        config, *others = _objects(server)
        if await ensure(self.client, "configmaps", {**config[1], "data": data}) is None:
            held = await self.client.get("configmaps", config[1]["metadata"]["name"], namespace)
            if held.get("data") != data:
                gone = {key: None for key in held.get("data") or {} if key not in data}
                await self.client.patch(
                    "configmaps", config[1]["metadata"]["name"], namespace, {"data": {**data, **gone}}
                )
        for resource, obj in others:
            await ensure(self.client, resource, obj)

    def _config(self, server: Obj) -> Obj:
        interval = server["spec"].get("scrapeInterval", "30s")
        jobs = [job for item in self._chosen(server, SERVICES, "serviceMonitor") for job in _jobs(item, "endpoints")]
        jobs += [job for item in self._chosen(server, PODS, "podMonitor") for job in _jobs(item, "pod")]
        return {"global": {"scrape_interval": interval}, "scrape_configs": jobs}

    def _groups(self, server: Obj) -> list[Obj]:
        return [group for item in self._chosen(server, RULES, "rule") for group in item["spec"].get("groups") or ()]

    def _chosen(self, server: Obj, resource: str, kind: str) -> list[Obj]:
        """Return what a Prometheus selects: by labels, in its own namespace or in those that it selects."""
        spec, own = server["spec"], server["metadata"]["namespace"]
        if spec.get(f"{kind}Selector") is None:
            return []
        wanted, spaces = from_struct(spec[f"{kind}Selector"]), spec.get(f"{kind}NamespaceSelector")
        found = sorted(self.informers[resource].items(), key=lambda item: item["metadata"]["name"])
        return [
            item
            for item in found
            if wanted.matches(item["metadata"].get("labels"))
            and self._is_there(item["metadata"]["namespace"], own, spaces)
        ]

    def _is_there(self, namespace: str, own: str, selector: Obj | None) -> bool:
        if selector is None:
            return namespace == own
        space = self.informers["namespaces"].get("", namespace) or {"metadata": {}}
        return from_struct(selector).matches(space["metadata"].get("labels"))


def _jobs(monitor: Obj, role: str) -> list[Obj]:
    """Return a scrape configuration for each endpoint of a monitor."""
    spec, meta = monitor["spec"], monitor["metadata"]
    kind = "serviceMonitor" if role == "endpoints" else "podMonitor"
    spaces = spec.get("namespaceSelector") or {}
    names = [] if spaces.get("any") else spaces.get("matchNames") or [meta["namespace"]]
    found = []
    for index, endpoint in enumerate(spec.get("endpoints" if role == "endpoints" else "podMetricsEndpoints") or ()):
        discovery: Obj = {"role": role} | ({"namespaces": {"names": names}} if names else {})
        job: dict[str, Any] = {"job_name": f"{kind}/{meta['namespace']}/{meta['name']}/{index}"}
        job |= {"honor_labels": bool(endpoint.get("honorLabels")), "kubernetes_sd_configs": [discovery]}
        job |= {"metrics_path": endpoint.get("path", "/metrics"), "scheme": endpoint.get("scheme", "http")}
        if endpoint.get("interval"):
            job["scrape_interval"] = endpoint["interval"]
        job["relabel_configs"] = [
            *_keeping(spec, role),
            *_port(endpoint, role),
            *_naming(role, meta),
            *_own(endpoint),
        ]
        if endpoint.get("metricRelabelings"):
            job["metric_relabel_configs"] = [_snake(rule) for rule in endpoint["metricRelabelings"]]
        found.append(job)
    return found


def _keeping(spec: Obj, role: str) -> list[Obj]:
    """Return the rules that keep what a selector selects."""
    selector = spec.get("selector") or {}
    prefix = f"{META}{'service' if role == 'endpoints' else 'pod'}_label"
    found = [
        _keep([f"{prefix}_{_plain(key)}", f"{prefix}present_{_plain(key)}"], f"({re.escape(value)});true")
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    ]
    for item in selector.get("matchExpressions") or ():
        label, present = f"{prefix}_{_plain(item['key'])}", f"{prefix}present_{_plain(item['key'])}"
        values = "|".join(map(re.escape, item.get("values") or ()))
        match item["operator"]:
            case "In":
                found.append(_keep([label, present], f"({values});true"))
            case "NotIn":
                found.append({**_keep([label, present], f"({values});true"), "action": "drop"})
            case "Exists":
                found.append(_keep([present], "true"))
            case "DoesNotExist":
                found.append({**_keep([present], "true"), "action": "drop"})
    return found


def _port(endpoint: Obj, role: str) -> list[Obj]:
    label = f"{META}endpoint_port_name" if role == "endpoints" else f"{META}pod_container_port_name"
    if endpoint.get("port"):
        return [_keep([label], str(endpoint["port"]))]
    if endpoint.get("targetPort"):
        kind = "number" if str(endpoint["targetPort"]).isdecimal() else "name"
        return [_keep([f"{META}pod_container_port_{kind}"], str(endpoint["targetPort"]))]
    return []


def _naming(role: str, meta: Obj) -> list[Obj]:
    """Return the rules that give a target its labels."""
    found = [_copy(f"{META}namespace", "namespace"), _copy(f"{META}pod_name", "pod")]
    found.append(_copy(f"{META}pod_container_name", "container"))
    if role == "endpoints":
        found += [_copy(f"{META}service_name", "service"), _copy(f"{META}service_name", "job")]
        return [*found, _copy(f"{META}endpoint_port_name", "endpoint")]
    return [*found, {"target_label": "job", "replacement": f"{meta['namespace']}/{meta['name']}"}]


def _own(endpoint: Obj) -> list[Obj]:
    return [_snake(rule) for rule in endpoint.get("relabelings") or ()]


def _snake(rule: Obj) -> Obj:
    """Return a rule as Prometheus itself spells it."""
    return {re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name): value for name, value in rule.items()}


def _keep(labels: list[str], regex: str) -> Obj:
    return {"source_labels": labels, "regex": regex, "action": "keep"}


def _copy(source: str, target: str) -> Obj:
    return {"source_labels": [source], "target_label": target, "regex": "(.+)", "replacement": "$1"}


def _plain(key: str) -> str:
    return re.sub("[^a-zA-Z0-9_]", "_", key)


def _objects(server: Obj) -> list[tuple[str, Obj]]:
    """Return what a Prometheus consists of."""
    name, namespace = f"prometheus-{server['metadata']['name']}", server["metadata"]["namespace"]
    labels = {"app.kubernetes.io/name": "prometheus", "prometheus": server["metadata"]["name"]}
    meta = {"namespace": namespace, "labels": labels, "ownerReferences": [owner_reference(server)]}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    container = {
        "name": "prometheus",
        "image": IMAGE,
        "args": ["--config.file=/etc/prometheus/prometheus.yml", "--web.enable-lifecycle"],
        "ports": [{"name": "web", "containerPort": 9090}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/prometheus"}],
    }
    pod = {
        "serviceAccountName": server["spec"].get("serviceAccountName", "default"),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}],
    }
    spec: Obj = {"serviceName": "prometheus-operated", "replicas": server["spec"].get("replicas", 1)}
    spec |= {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    ports = [{"name": "web", "port": 9090, "targetPort": "web"}]
    service = {"clusterIP": "None", "selector": labels, "ports": ports}
    return [
        ("configmaps", config),
        (
            "services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {**meta, "name": "prometheus-operated"},
                "spec": service,
            },
        ),
        (
            "statefulsets.apps",
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, **meta}, "spec": spec},
        ),
    ]


def begin(post: Post) -> Operator:
    """Begin to work."""
    return Operator(post, PrometheusController)
