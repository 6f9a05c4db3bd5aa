"""Requests to programs in pods, by one of two ways: the API server's proxy, or the kubelet of a pod.

The proxy ends nowhere where the API server does not reach the network of pods: that of simulated nodes, or one
behind a firewall. Every API server reaches kubelets. On clusters of ours the proxy is faster. One way is taken until
it is closed to us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import urllib3

from faults import errors
from faults.engine.model import Reply, Request
from faults.kube.port_forward import ForwardedPort, ObjectReader, PodPort, ask, find_port
from faults.kube.proxy import may_be_unreachable, proxy_path

T = TypeVar("T")


class Ways(ObjectReader, Protocol):
    """The verbs of ``Kube`` that are needed here."""

    reaches_pods: bool

    @property
    def patience(self) -> urllib3.Timeout:
        """Return for how long an answer is awaited."""

    def forward(self, namespace: str, target: PodPort) -> ForwardedPort:
        """Return a connection to a port of a pod."""

    def through_proxy(self, path: str, request: Request) -> Reply:
        """Send a request to the proxy."""

    def repeat(self, ask: Callable[[], T]) -> T:
        """Do something again while no answer can be had."""


def call(ways: Ways, namespace: str, server: str, request: Request) -> Reply:
    """Send a request to ``pods/NAME:PORT`` or ``services/NAME:PORT``, and return the program's reply.

    It goes by the other way where one is forbidden and, for a GET, where the proxy has no answer. Only a GET is
    repeated. Raises ``Unanswered`` where no program answers.
    """
    if ways.reaches_pods or not (target := find_port(ways, namespace, server)):
        return _by_proxy_first(ways, namespace, server, request)
    try:
        return _by_kubelet(ways, namespace, target, request)
    except errors.Forbidden:
        reply = _by_proxy(ways, namespace, server, request)
        ways.reaches_pods = True
        return reply


def _by_proxy_first(ways: Ways, namespace: str, server: str, request: Request) -> Reply:
    try:
        return _by_proxy(ways, namespace, server, request)
    except errors.Unanswered as exc:
        if request.method != "GET" or not may_be_unreachable(exc):
            raise
        reply = _instead(ways, namespace, server, request, exc)
    ways.reaches_pods = False
    return reply


def _instead(ways: Ways, namespace: str, server: str, request: Request, silence: errors.Unanswered) -> Reply:
    """Ask a kubelet where the proxy had no answer. Raises ``Unanswered`` with what both of them said."""
    try:
        target = find_port(ways, namespace, server)
        reply = _by_kubelet(ways, namespace, target, request) if target else None
    except errors.ClusterError as exc:
        why = f"{silence.message.rstrip('.')}; nor does a kubelet lead there: {exc.message}"
        raise errors.Unanswered(why) from exc
    if reply is None:
        raise silence
    return reply


def _by_proxy(ways: Ways, namespace: str, server: str, request: Request) -> Reply:
    path = proxy_path(namespace, server, request.path)
    return _sent(ways, request, lambda: ways.through_proxy(path, request))


def _by_kubelet(ways: Ways, namespace: str, target: PodPort, request: Request) -> Reply:
    """Send a request to a forwarded port; a pod that has gone meanwhile is one that does not answer."""

    def send() -> Reply:
        try:
            forwarded = ways.forward(namespace, target)
        except (errors.NotFound, errors.Invalid) as exc:
            raise errors.Unanswered(exc.message) from exc
        return ask(forwarded, target, request, ways.patience)

    return _sent(ways, request, send)


def _sent(ways: Ways, request: Request, send: Callable[[], Reply]) -> Reply:
    return ways.repeat(send) if request.method == "GET" else send()
