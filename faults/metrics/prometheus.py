"""Queries of a cluster's Prometheus: at its stored address, or through the API server's service proxy."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from faults.errors import ClusterError, Unreachable
from faults.kube import addresses
from faults.kube.checked_connections import Refusal
from faults.kube.client import Kube
from faults.kube.port_forward import find_port, forwarding_pools
from faults.kube.prometheus_query import Service
from faults.metrics.http_session import BoundedSession, ClusterAdapter

TIMEOUT_S = (1.0, 2.0)  # to connect, and between two bytes


class PrometheusSource:
    """One Prometheus. Not for several threads at once. Every failure is a ``ClusterError``.

    ``others`` connect to further servers of the same cluster: one may have what another has lost.
    """

    def __init__(
        self, url: str, adapter: ClusterAdapter, where: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.where = where
        self.others: Sequence[Callable[[], PrometheusSource]] = ()
        session = BoundedSession()
        sent = dict(headers) if headers else None
        self._client = PrometheusConnect(url, headers=sent, session=session, timeout=TIMEOUT_S)
        # In place of the client's own, which tries again and checks no address: for every spelling of the address,
        # since ``requests`` looks for an adapter once it has written host and path its own way.
        for prefix in ("http://", "https://", url):
            session.mount(prefix, adapter)

    def query(self, promql: str) -> list[Any]:
        """Return the result of an instant query as it was sent. Raises ``Unreachable``."""
        try:
            found = self._client.custom_query(promql)
        except PrometheusApiClientException as exc:
            raise Unreachable(f"Prometheus at {self.where} refused a query: {exc}") from exc
        except requests.JSONDecodeError as exc:
            raise Unreachable(f"Prometheus at {self.where} answered something that is not JSON.") from exc
        except (requests.RequestException, OSError) as exc:
            raise Unreachable(f"Prometheus at {self.where} cannot be reached: {_cause(exc)}") from exc
        except (KeyError, TypeError, ValueError, RecursionError) as exc:
            raise Unreachable(f"{self.where} does not answer as Prometheus does.") from exc
        return found if isinstance(found, list) else []

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def through_url(url: str, *, loopback: bool) -> PrometheusSource:
    """Return the Prometheus at a stored address. Raises ``Unreachable`` for one that nothing of ours may ask.

    The host is looked at now, and each connection's peer again: a name may lead elsewhere a moment later.
    """
    try:
        addresses.check_url(url, loopback=loopback)
    except addresses.AddressRefused as exc:
        raise Unreachable(f"The Prometheus address is refused: {exc}.", retryable=False) from exc
    refusal: Refusal = lambda address: addresses.refusal(address, loopback=loopback)  # noqa: E731
    parts = urlsplit(url)
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return PrometheusSource(base, ClusterAdapter(refusal=refusal), parts.hostname or "")


def through_api_server(kube: Kube, service: Service) -> PrometheusSource:
    """Return the Prometheus behind a service, asked with the cluster's own credentials."""
    access = kube.access
    path = f"/api/v1/namespaces/{quote(service.namespace)}/services/{quote(service.name)}:{service.port}/proxy"
    adapter = ClusterAdapter(kube.ssl_context(), server_name=access.tls_server_name, refusal=access.refusal)
    headers = {name: value for name, value in kube.headers.items() if name != "Accept"}
    return PrometheusSource(f"{access.server}{path}", adapter, str(service), headers)


def through_kubelet(kube: Kube, service: Service) -> PrometheusSource:
    """Return the Prometheus behind a service where only kubelets lead to pods; each connection looks for its pod."""

    def dial() -> socket.socket:
        target = find_port(kube, service.namespace, f"services/{service.name}:{service.port}")
        if target is None:
            raise OSError(f"the service {service} selects no pods")
        try:
            return kube.forward(service.namespace, target).socket
        except ClusterError as exc:
            raise OSError(exc.message) from exc

    adapter = ClusterAdapter(pools=forwarding_pools(dial))
    return PrometheusSource(f"http://{service.name}.{service.namespace}:{service.port}", adapter, str(service))


def _cause(exc: BaseException) -> str:
    """Return the innermost reason, in one line."""
    reason = getattr(exc, "reason", None) or (exc.args[0] if exc.args else None)
    return _cause(reason) if isinstance(reason, BaseException) else str(exc).rsplit(": ", 1)[-1]
