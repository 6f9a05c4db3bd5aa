"""Instant queries of the Prometheus that runs in a cluster, through the API server's service proxy.

For conditions that are looked at directly, as when a symptom is awaited. What is asked again and again is for
``faults.metrics``, which keeps its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import orjson

from faults.errors import NotFound, Unanswered, Unreachable

SELECTORS = (
    "operated-prometheus=true",  # the Prometheus operator's own service
    "app.kubernetes.io/name=prometheus",
    "app in (prometheus,kube-prometheus-stack-prometheus)",
)
"""Labels of Prometheus' service in the usual installations, the most telling first."""
_PORTS = ("http-web", "web", "http")
_PORT = 9090
_COMPONENTS = ("", "server", "prometheus")  # of app.kubernetes.io/component: an alertmanager is none of ours


class ServiceReader(Protocol):
    """The verbs of ``Kube`` that are needed here."""

    def list(
        self, api_version: str, kind: str, namespace: str = "", label_selector: str = ""
    ) -> list[dict[str, Any]]:
        """Return objects."""

    def fetch(self, namespace: str, server: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a page behind the proxy."""


@dataclass(frozen=True, slots=True)
class Service:
    """The service behind which a Prometheus runs; ``port`` is its number."""

    namespace: str
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"


def find_service(cluster: ServiceReader) -> Service:
    """Return the service of the cluster's Prometheus. Raises ``NotFound`` where no usual installation is seen."""
    return next(_services(cluster))


def find_services(cluster: ServiceReader) -> list[Service]:
    """Return the services of all of its Prometheus servers, that of ``find_service`` first. Raises ``NotFound``."""
    return [*dict.fromkeys(_services(cluster))]


def _services(cluster: ServiceReader) -> Iterator[Service]:
    """Yield services, some of them twice; each selector is asked for when it is needed."""
    is_any = False
    for selector in SELECTORS:
        found = [_service(each) for each in cluster.list("v1", "Service", label_selector=selector)]
        for service in sorted((each for each in found if each is not None), key=str):
            is_any = True
            yield service
    if not is_any:
        raise NotFound("The cluster has no service of a Prometheus.")


def query(cluster: ServiceReader, service: Service, promql: str) -> Sequence[Any]:
    """Return the series of an instant query as Prometheus sent them. Raises ``Unreachable``, ``NotFound``."""
    path = f"/api/v1/query?{urlencode({'query': promql})}"
    try:
        status, body = cluster.fetch(service.namespace, f"services/{service.name}:{service.port}", path)
    except Unanswered as exc:
        raise Unreachable(f"Prometheus at {service} does not answer: {exc.message}") from exc
    try:
        answer: Any = orjson.loads(body)
        if status != 200:
            raise Unreachable(f"Prometheus at {service} refused a query: {answer['error']}")
        found = answer["data"]["result"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
        raise Unreachable(f"{service} does not answer as Prometheus does, or too much.") from exc
    return found if isinstance(found, list) else []


def _service(service: Mapping[str, Any]) -> Service | None:
    """Return the service of a server; None for another component's, or one without a port."""
    try:
        meta, ports = service["metadata"], service["spec"].get("ports") or []
        if (meta.get("labels") or {}).get("app.kubernetes.io/component", "") not in _COMPONENTS:
            return None
        named = [port for port in ports if port.get("name") in _PORTS or port.get("port") == _PORT]
        return Service(meta["namespace"], meta["name"], int((named or ports)[0]["port"]))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
