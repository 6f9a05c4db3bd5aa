"""The proxies: HTTP requests that the API server passes on to a pod, a service or a node."""

from __future__ import annotations

import ipaddress
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from kubesim.api.answers import NO_CACHE
from kubesim.api.backend import Backend
from kubesim.api.requestinfo import RequestInfo
from kubesim.api.status import bad_request
from kubesim.errors import ApiError, Obj
from kubesim.network.fabric import REASONS, Request
from kubesim.schema.registry import Kind
from kubesim.shell.errors import NetworkError

SCHEMES = ("", "http", "https")
KUBELET_PORT = 10250
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection", "authorization"}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a proxy's path names: ``scheme:name:port``, the two around the name optional."""

    scheme: str
    name: str
    port: str


def prepared(
    backend: Backend, request: web.Request, info: RequestInfo, kind: Kind
) -> Callable[[], Awaitable[web.StreamResponse]]:
    """Return what passes a request on. Raises 404, 400 and 503 where there is nothing to pass it to."""
    asked = _asked(info.name, kind)
    locate = {"pods": _pod, "services": _service, "nodes": _node}[kind.resource]
    address, port = locate(backend, info, kind, asked)
    return lambda: _pass_on(backend, request, info, address, port)


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


def _pod(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> tuple[str, int]:
    pod = backend.operations.get(kind, info.namespace, asked.name)
    declared = [port["containerPort"] for item in pod["spec"]["containers"] for port in item.get("ports") or ()]
    port = asked.port or (str(declared[0]) if declared else "80")
    addresses = pod.get("status", {}).get("podIPs") or [{"ip": ""}]
    address = addresses[0]["ip"]
    if not address or not ipaddress.ip_address(address).is_global and not ipaddress.ip_address(address).is_private:
        raise bad_request("address not allowed")
    return address, _number(port)


def _node(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> tuple[str, int]:
    node = backend.operations.get(kind, "", asked.name)
    addresses = {item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()}
    if "InternalIP" not in addresses:
        raise ApiError(500, "InternalError", f"no preferred addresses found; known addresses: {[*addresses]}")
    return addresses["InternalIP"], _number(asked.port or str(KUBELET_PORT))


def _service(backend: Backend, info: RequestInfo, kind: Kind, asked: Asked) -> tuple[str, int]:
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
    return random.choice(places)


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


async def _pass_on(
    backend: Backend, request: web.Request, info: RequestInfo, address: str, port: int
) -> web.StreamResponse:
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
    headers |= {"x-forwarded-for": request.remote or "", "x-forwarded-uri": path}
    asked = Request(request.method, (inner or "/") + query, headers, await request.read(), backend.address)
    try:
        found = await backend.nodes.fabric.find(address, port).respond(asked)
    except NetworkError as error:
        host = f"[{address}]" if ":" in address else address
        raise _unavailable(f"error trying to reach service: dial tcp {host}:{port}: {REASONS[error.kind]}") from error
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
