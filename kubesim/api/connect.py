"""What leads past the API server: streams into pods (exec, attach, port-forward), and the proxies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from kubesim import admission
from kubesim.admission.requests import Request
from kubesim.api import proxy
from kubesim.api.answers import NO_CACHE
from kubesim.api.backend import Backend
from kubesim.api.negotiate import parse_bool
from kubesim.api.options import Options
from kubesim.api.requestinfo import STREAMS, RequestInfo
from kubesim.api.status import bad_request
from kubesim.api.streams import abort, container_of, still_allowed
from kubesim.asking import answered
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.streaming import portforward, remote
from kubesim.streaming.seam import Run, Unreached

EXECUTING, ATTACHING = "error executing command in container", "error attaching to container"
FLAGS = ("stdin", "stdout", "stderr", "tty")
OPTIONS = {
    ("pods", "exec"): "PodExecOptions", ("pods", "attach"): "PodAttachOptions",
    ("pods", "portforward"): "PodPortForwardOptions", ("pods", "proxy"): "PodProxyOptions",
    ("services", "proxy"): "ServiceProxyOptions", ("nodes", "proxy"): "NodeProxyOptions",
}  # fmt: skip
"""What stands for the object of a connection."""
Serve = Callable[[], Awaitable[web.StreamResponse]]


def serves(kind: Kind, info: RequestInfo) -> bool:
    """Whether a request is one of these."""
    if not info.name or kind.namespaced != bool(info.namespace) or kind.subresource(info.subresource) is None:
        return False
    return info.subresource == "proxy" or ((kind.resource, info.subresource) in STREAMS and not info.rest)


async def answer(
    backend: Backend, request: web.Request, info: RequestInfo, kind: Kind, user: User
) -> web.StreamResponse:
    """Serve a stream until it ends, its user loses the right to it, or the cluster goes; or pass a request on."""
    await _admit(backend, request, info, kind, user)
    if info.subresource == "proxy":
        serve: Serve = proxy.prepared(backend, request, info, kind)
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
    name, query = OPTIONS.get((kind.resource, info.subresource), ""), request.query
    said: Obj = {"kind": name, "apiVersion": "v1"}
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
        return lambda: portforward.serve(request, lambda: backend.nodes.forward(pod, lambda: abort(request)), pace)
    words = request.query.getall("command", [])
    attaching, wanted = info.subresource == "attach", remote.Wanted.read(request.query)

    def begin() -> AbstractAsyncContextManager[Run]:
        nodes = backend.nodes
        return nodes.attach(pod, container, wanted) if attaching else nodes.exec(pod, container, words, wanted)

    command = remote.Command(wanted, begin, ATTACHING if attaching else EXECUTING, pace)
    return lambda: remote.serve(request, command)
