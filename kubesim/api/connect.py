"""Ways past the API server: streams into pods (exec, attach, port-forward), and the proxies.

A proxy passes HTTP requests on to a pod, a service or a node.
"""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from kubesim import admission
from kubesim.admission.requests import Request
from kubesim.api.answers import NO_CACHE
from kubesim.api.backend import Backend
from kubesim.api.kubelets import Target, kubelet_of
from kubesim.api.negotiate import CONNECTIONS, RequestInfo, parse_bool
from kubesim.api.options import Options
from kubesim.api.status import bad_request
from kubesim.api.streams import container_of, still_allowed
from kubesim.asking import answered
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.forwarded import client_of
from kubesim.network.fabric import Request as ServerRequest
from kubesim.schema.registry import Kind
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.streaming import portforward, remote
from kubesim.streaming.seam import Run, Unreached

EXECUTING, ATTACHING = "error executing command in container", "error attaching to container"
FLAGS = ("stdin", "stdout", "stderr", "tty")
Serve = Callable[[], Awaitable[web.StreamResponse]]
SCHEMES = ("", "http", "https")
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection", "authorization"}
)


def serves(kind: Kind, info: RequestInfo) -> bool:
    """Whether a request is one of these."""
    if not info.name or kind.namespaced != bool(info.namespace) or kind.subresource(info.subresource) is None:
        return False
    return info.subresource == "proxy" or ((kind.resource, info.subresource) in CONNECTIONS and not info.rest)


async def answer(
    backend: Backend, request: web.Request, info: RequestInfo, kind: Kind, user: User
) -> web.StreamResponse:
    """Serve a stream until it ends, its user loses the right to it, or the cluster goes; or pass a request on."""
    await _admit(backend, request, info, kind, user)
    if info.subresource == "proxy":
        serve: Serve = prepared(backend, request, info, kind)
    elif request.method in ("GET", "POST"):
        serve = _stream(backend, request, info, backend.operations.get(kind, info.namespace, info.name), user)
    else:
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
    response: web.StreamResponse | None = None
    with backend.fairness.stream(user):
        async with backend.guard.stream(still_allowed(backend, request, info, user)):
            try:
                response = await serve()
            except Unreached as error:
                raise ApiError(500, "", str(error)) from error
    return response or web.Response(status=401, headers=NO_CACHE)


async def _admit(backend: Backend, request: web.Request, info: RequestInfo, kind: Kind, user: User) -> None:
    """Ask policies and webhooks whether a connection may be. Raises what they refuse."""
    operations, (name, *rest) = backend.operations, info.name.split(":")
    target = backend.store.get(kind, info.namespace if kind.namespaced else "", rest[0] if rest[1:] else name)
    if target is None:
        return
    options = Options(user=user.name, requester=user)
    sub, query = kind.subresource(info.subresource), request.query
    said: Obj = {"kind": sub.kind if sub is not None else "", "apiVersion": "v1"}
    said |= {flag: True for flag in FLAGS if info.subresource in ("exec", "attach") and parse_bool(query.get(flag))}
    said |= {"container": query["container"]} if query.get("container") else {}
    said |= {"command": query.getall("command")} if "command" in query else {}
    said |= {"path": "/".join(info.rest)} if info.subresource == "proxy" and info.rest else {}
    connection = Request(operations, kind, kind, None, target, info.subresource, options, said)
    await answered(operations.ask, lambda: admission.of_connection(connection), options)


def _stream(backend: Backend, request: web.Request, info: RequestInfo, pod: Obj, user: User) -> Serve:
    """Return what serves a stream into a pod. Raises 400 for a container that is not named, and a pod on no node."""
    forwarding = info.subresource == "portforward"
    container = "" if forwarding else container_of(pod, request.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {info.name} does not have a host assigned")
    backend.nodes.check(pod)

    async def pace(size: int) -> None:
        if pause := backend.fairness.charge(user, size):
            await backend.clock.sleep(pause)

    if forwarding:
        return lambda: portforward.serve(request, lambda: backend.nodes.forward(pod), pace)
    words = request.query.getall("command", [])
    attaching, wanted = info.subresource == "attach", remote.Wanted.read(request.query)

    def begin() -> Run:
        nodes = backend.nodes
        return nodes.attach(pod, container, wanted) if attaching else nodes.exec(pod, container, words, wanted)

    command = remote.Command(wanted, begin, ATTACHING if attaching else EXECUTING, pace)
    return lambda: remote.serve(request, command)


@dataclass(frozen=True, slots=True)
class Asked:
    """The target that a proxy's path names: ``scheme:name:port``, the two around the name optional."""

    scheme: str
    name: str
    port: str


def prepared(
    backend: Backend, request: web.Request, info: RequestInfo, kind: Kind
) -> Callable[[], Awaitable[web.StreamResponse]]:
    """Return what passes a request on. Raises 404, 400 and 503 where there is nothing to pass it to."""
    asked = _asked(info.name, kind)
    locate = {"pods": _pod, "services": _service, "nodes": _node}[kind.resource]
    target = locate(backend, info, kind, asked)
    return lambda: _pass_on(backend, request, info, target)


def _asked(name: str, kind: Kind) -> Asked:
    parts = name.split(":")
    match parts:
        case [one]:
            asked = Asked("", one, "")
        case [one, port]:
            asked = Asked("", one, port)
        case [scheme, one, port]:
            asked = Asked(scheme, one, port)
        case _:
            asked = Asked("?", "", "")
    if not asked.name or asked.scheme not in SCHEMES:
        raise bad_request(f'invalid {kind.kind.lower()} request "{name}"')
    return asked


def _pod(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> Target:
    pod = backend.operations.get(kind, info.namespace, asked.name)
    declared = [port["containerPort"] for item in pod["spec"]["containers"] for port in item.get("ports") or ()]
    port = asked.port or (str(declared[0]) if declared else "80")
    told = pod.get("status", {}).get("podIPs") or [{"ip": ""}]
    _check_address(told[0]["ip"])
    return Target(told[0]["ip"], _number(port), asked.scheme == "https")


def _node(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> Target:
    """Return a node's kubelet, or another port of the node."""
    kubelet = kubelet_of(backend.operations.get(kind, "", asked.name))
    _check_address(kubelet.host)
    if asked.port in ("", str(kubelet.port)):
        return kubelet
    return Target(kubelet.host, _number(asked.port), asked.scheme == "https")


def _check_address(address: str) -> None:
    """Raise 400 for an address that no proxy leads to."""
    try:
        found = ipaddress.ip_address(address or "0.0.0.0")  # noqa: S104 - what is not told is no address
    except ValueError:
        return
    if found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local:
        raise bad_request("address not allowed")


def _service(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> Target:
    name = _port_name(backend.operations.get(kind, info.namespace, asked.name), asked)
    endpoints = backend.operations.registry.by_resource("endpoints")
    found: Obj = backend.store.get(endpoints, info.namespace, asked.name) or {}
    if not found.get("subsets"):
        raise _unavailable(f'no endpoints available for service "{asked.name}"')
    places = [
        (address["ip"], port["port"])
        for subset in found["subsets"]
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
        if port.get("name", "") == name
    ]
    if not places:
        raise _unavailable(f'no endpoints available for service "{info.name}"')
    return Target(*random.choice(places), asked.scheme == "https")


def _port_name(service: Obj, asked: Asked) -> str:
    """Return the name of the service's port that is meant: it may be given by its number."""
    if not asked.port.isdecimal():
        return asked.port
    for port in service["spec"].get("ports") or ():
        if port["port"] == int(asked.port):
            return str(port.get("name", ""))
    raise _unavailable(f'no service port {int(asked.port)} found for service "{asked.name}"')


def _number(port: str) -> int:
    """Return a port's number. Raises 503 for what cannot be dialled."""
    if port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536:
        return int(port)
    raise _unavailable(f"error trying to reach service: dial tcp: lookup tcp/{port}: unknown port")


async def _pass_on(backend: Backend, request: web.Request, info: RequestInfo, target: Target) -> web.StreamResponse:
    """Send a request to what listens, and its answer back."""
    path = request.rel_url.raw_path
    found_at = re.search(rf"/{info.resource}/[^/]+/proxy(?=/|$)", path)
    prefix = path[: found_at.end()] if found_at else path
    inner = path[len(prefix) :]
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    if not inner and request.method in ("GET", "HEAD"):
        return web.Response(status=301, headers={"Location": f"{path}/{query}"})
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers = {name: value for name, value in headers.items() if name not in HOP_BY_HOP}
    headers |= {"x-forwarded-for": client_of(request).address, "x-forwarded-uri": path}
    try:
        asked = ServerRequest(request.method, (inner or "/") + query, headers, await request.read(), backend.address)
        found = await backend.nodes.fabric.find(target.host, target.port).respond(asked)
    except NetworkError as error:
        why = f"error trying to reach service: dial tcp {target.place}: {REASONS[error.kind]}"
        raise _unavailable(why) from error
    return web.Response(status=found.status, body=found.body, headers=_answered(found.headers, prefix))


def _answered(headers: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return an answer's headers; a redirect within the server leads through the proxy again."""
    kept = {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP | {"content-length"}}
    for name, value in kept.items():
        if name.lower() == "location" and value.startswith("/") and not value.startswith(prefix):
            kept[name] = prefix + value
    return {"Content-Type": "text/plain; charset=utf-8", **NO_CACHE, **kept}


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)
