"""Service discovery: what a ``prometheus.yml`` finds in a cluster (``kubernetes_sd_configs`` and static targets).

The meta labels are those of Prometheus' documentation of ``kubernetes_sd_config``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import yaml

from kubesim import data
from kubesim.errors import Obj
from kubesim.kubelet.endpoint import port_of
from kubesim.metrics import relabel
from kubesim.metrics.promql.values import QueryError

META = "__meta_kubernetes_"
Lister = Callable[[str], Iterable[Obj]]
"""Resource name -> every object of it."""


class ConfigError(Exception):
    """A configuration that Prometheus would not load; the message says why."""


@dataclass(frozen=True, slots=True)
class Job:
    """One scrape configuration."""

    name: str
    interval_s: float
    honor_labels: bool
    path: str
    scheme: str
    relabelling: tuple[relabel.Rule, ...]
    metric_relabelling: tuple[relabel.Rule, ...]
    discoveries: tuple[Mapping[str, Any], ...]
    static: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """A target as discovery and relabelling leave it."""

    job: Job
    url: str
    labels: dict[str, str] = field(default_factory=dict)
    discovered: dict[str, str] = field(default_factory=dict)


@lru_cache(maxsize=16)
def load(text: str, duration: Callable[[str, str], float]) -> tuple[Job, ...]:
    """Return the jobs of a ``prometheus.yml``; ``duration`` reads times such as 15s. Raises ConfigError."""
    try:
        document = data.parse_sent(text) or {}
        fallback = str(document.get("global", {}).get("scrape_interval", "1m"))
        return tuple(_job(entry, fallback, duration) for entry in document.get("scrape_configs") or ())
    except yaml.YAMLError as error:
        raise ConfigError(f"parsing YAML file prometheus.yml: {error}") from error
    except (relabel.RelabelError, QueryError) as error:
        raise ConfigError(f"parsing YAML file prometheus.yml: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError("parsing YAML file prometheus.yml: a scrape configuration needs a job_name") from error


def _job(entry: Mapping[str, Any], fallback: str, duration: Callable[[str, str], float]) -> Job:
    roles = {str(found.get("role")) for found in entry.get("kubernetes_sd_configs") or ()}
    if unknown := roles - _ROLES.keys():
        raise ConfigError(f'parsing YAML file prometheus.yml: unknown Kubernetes SD role "{min(unknown)}"')
    return Job(
        entry["job_name"],
        duration(str(entry.get("scrape_interval", fallback)), "scrape_interval"),
        bool(entry.get("honor_labels")),
        str(entry.get("metrics_path", "/metrics")),
        str(entry.get("scheme", "http")),
        relabel.rules(entry.get("relabel_configs")),
        relabel.rules(entry.get("metric_relabel_configs")),
        tuple(entry.get("kubernetes_sd_configs") or ()),
        tuple(entry.get("static_configs") or ()),
    )


def targets(jobs: Iterable[Job], objects: Lister) -> Iterator[Found]:
    """Yield every target that is left after relabelling; what jobs find in the same role is looked up once."""
    find = cache(lambda role: [*_ROLES[role](objects)])
    for job in jobs:
        for labels in _discovered(job, find):
            found = _target(job, labels)
            if found is not None:
                yield found


def _discovered(job: Job, find: Callable[[str], list[dict[str, str]]]) -> Iterator[dict[str, str]]:
    for entry in job.static:
        for address in entry.get("targets") or ():
            yield {"__address__": str(address), **{k: str(v) for k, v in (entry.get("labels") or {}).items()}}
    for entry in job.discoveries:
        names = set((entry.get("namespaces") or {}).get("names") or ())
        for labels in find(str(entry["role"])):
            if not names or labels.get(f"{META}namespace") in names:
                yield labels


def _target(job: Job, found: dict[str, str]) -> Found | None:
    base = {"job": job.name, "__scheme__": job.scheme, "__metrics_path__": job.path, **found}
    labels = relabel.apply(job.relabelling, base)
    if labels is None or not labels.get("__address__"):
        return None
    address = labels["__address__"]
    url = f"{labels.get('__scheme__', 'http')}://{address}{labels.get('__metrics_path__', '/metrics')}"
    kept = {name: value for name, value in labels.items() if not name.startswith("__")}
    return Found(job, url, {"instance": address, **kept}, base)


def _named(prefix: str, found: Mapping[str, str] | None, kind: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, value in (found or {}).items():
        key = re.sub("[^a-zA-Z0-9_]", "_", name)
        labels[f"{META}{prefix}_{kind}_{key}"] = str(value)
        labels[f"{META}{prefix}_{kind}present_{key}"] = "true"
    return labels


def _object(prefix: str, obj: Obj) -> dict[str, str]:
    meta = obj["metadata"]
    labels = {f"{META}{prefix}_name": meta["name"]}
    if "namespace" in meta:
        labels[f"{META}namespace"] = meta["namespace"]
    return (
        labels | _named(prefix, meta.get("labels"), "label") | _named(prefix, meta.get("annotations"), "annotation")
    )


def _meta(prefix: str, **found: Any) -> dict[str, str]:
    return {f"{META}{prefix}_{name}": str(value) for name, value in found.items() if value}


def _pod_labels(pod: Obj) -> dict[str, str]:
    status, owners = pod.get("status", {}), pod["metadata"].get("ownerReferences") or ()
    ready = next((c["status"] for c in status.get("conditions") or () if c["type"] == "Ready"), "Unknown").lower()
    owner: Obj = next((item for item in owners if item.get("controller")), {})
    where = {"ip": status.get("podIP"), "node_name": pod["spec"].get("nodeName"), "host_ip": status.get("hostIP")}
    by = {"controller_kind": owner.get("kind"), "controller_name": owner.get("name")}
    own = _meta("pod", ready=ready, phase=status.get("phase"), uid=pod["metadata"]["uid"], **where, **by)
    return _object("pod", pod) | own


def _pods(objects: Lister) -> Iterator[dict[str, str]]:
    for pod in objects("pods"):
        address = pod.get("status", {}).get("podIP")
        if not address or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        labels = _pod_labels(pod)
        for container in pod["spec"].get("containers") or ():
            own = _meta("pod_container", name=container["name"], image=container["image"], init="false")
            for port in container.get("ports") or ():
                number = f"{address}:{port['containerPort']}"
                yield {"__address__": number, **labels, **own, **_port("pod_container", port)}
            if not container.get("ports"):
                yield {"__address__": address, **labels, **own}


def _port(prefix: str, port: Obj) -> dict[str, str]:
    number, protocol = port.get("containerPort", port.get("port")), port.get("protocol", "TCP")
    return _meta(f"{prefix}_port", name=port.get("name"), number=number, protocol=protocol)


def _nodes(objects: Lister) -> Iterator[dict[str, str]]:
    for node in objects("nodes"):
        addresses = {a["type"]: a["address"] for a in node.get("status", {}).get("addresses") or ()}
        labels = _object("node", node) | {f"{META}node_address_{kind}": text for kind, text in addresses.items()}
        name = node["metadata"]["name"]
        yield {"__address__": f"{addresses.get('InternalIP', name)}:{port_of(node)}", "instance": name, **labels}


def _services(objects: Lister) -> Iterator[dict[str, str]]:
    for service in objects("services"):
        meta, spec = service["metadata"], service["spec"]
        labels = _object("service", service) | _meta("service", cluster_ip=spec.get("clusterIP"))
        for port in spec.get("ports") or ():
            host = f"{meta['name']}.{meta['namespace']}.svc:{port['port']}"
            yield {"__address__": host, **labels, **_port("service", port)}


def _endpoints(objects: Lister) -> Iterator[dict[str, str]]:
    pods = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in objects("pods")}
    services = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in objects("services")}
    for endpoints in objects("endpoints"):
        meta = endpoints["metadata"]
        service = services.get((meta["namespace"], meta["name"]))
        common = _object("endpoints", endpoints) | (_object("service", service) if service else {})
        for address, port, ready in _addresses(endpoints):
            target = address.get("targetRef") or {}
            pod = pods.get((meta["namespace"], target.get("name", "")))
            named = {"address_target_kind": target.get("kind"), "address_target_name": target.get("name")}
            told = {"port_name": port.get("name"), "port_protocol": port.get("protocol", "TCP")}
            yield {
                "__address__": f"{address['ip']}:{port['port']}",
                **common,
                **_meta("endpoint", ready=ready, **told, **named),
                **(_with_container(pod, port) if pod else {}),
            }


def _addresses(endpoints: Obj) -> Iterator[tuple[Obj, Obj, str]]:
    for subset in endpoints.get("subsets") or ():
        for kind, ready in (("addresses", "true"), ("notReadyAddresses", "false")):
            for address in subset.get(kind) or ():
                for port in subset.get("ports") or ():
                    yield address, port, ready


def _with_container(pod: Obj, port: Obj) -> dict[str, str]:
    labels = _pod_labels(pod)
    for container in pod["spec"].get("containers") or ():
        for declared in container.get("ports") or ():
            if declared["containerPort"] == port["port"]:
                return labels | _meta("pod_container", name=container["name"]) | _port("pod_container", declared)
    return labels


_ROLES: dict[str, Callable[[Lister], Iterator[dict[str, str]]]] = {
    "pod": _pods,
    "node": _nodes,
    "service": _services,
    "endpoints": _endpoints,
}
