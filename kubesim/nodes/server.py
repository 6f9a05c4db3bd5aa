"""A kubelet's port on a real network: HTTPS, with everything that API servers and scrapers ask of a kubelet.

The API server is asked who someone is and what he may do, as a real kubelet asks.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

from aiohttp import web

from kubesim.auth.users import ANONYMOUS, AUTHENTICATED, User, holder_of
from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import Kubelets
from kubesim.kubelet.logs import LogArguments, limited
from kubesim.listener import Listener, close
from kubesim.malformed_http import Runner
from kubesim.network.fabric import HttpServer, Request
from kubesim.streaming import portforward, remote
from kubesim.streaming.seam import Refused, Run
from kubesim.streaming.upgrade import refusal
from kubesim.times import parse

MOST_HEAD = 64 * 1024
GRACE_SECONDS = 1.0
NO_POD = 'pods "{}" not found\n'
TRUE = ("1", "true")


class KubeletServer:
    """Serves one node's kubelet on a socket."""

    def __init__(self, node: str, kubelets: Kubelets, guard: Guard, clock: Clock) -> None:
        self._node = node
        self._kubelets = kubelets
        self._guard = guard
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._sock: Listener | None = None

    async def start(self, sock: Listener, context: ssl.SSLContext) -> None:
        """Begin to answer."""
        self._sock = sock
        app = web.Application()
        app.router.add_route("*", r"/{path:[\s\S]*}", self._handle)
        app.on_response_prepare.append(_tell)
        self._runner = Runner(
            app,
            access_log=None,
            handler_cancellation=True,
            max_line_size=MOST_HEAD,
            max_field_size=MOST_HEAD,
            shutdown_timeout=GRACE_SECONDS,
        )
        await self._runner.setup()
        await web.SockSite(self._runner, sock, ssl_context=context).start()

    async def stop(self) -> None:
        """Answer no more; streams are cut off."""
        if self._runner is not None and self._sock is not None:
            await close(self._runner, self._sock)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._kubelets.away(self._node) and request.transport is not None:
            request.transport.abort()
            raise ConnectionResetError
        try:
            await self._guard.check(_attempt(request))
            return await self._answer(request)
        except Unauthorized as refused:
            return web.Response(status=refused.code, text=refused.text)
        except Refused as refused:
            return refusal(refused)
        except ApiError as error:
            return web.Response(status=error.code, text=f"{error.message}\n")
        except ConnectionResetError:
            raise
        except ConnectionError as error:
            return web.Response(status=500, text=f"Authorization error: {error}\n")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        match [part for part in request.path.split("/") if part]:
            case ["containerLogs", namespace, pod, container]:
                return await self._log(request, namespace, pod, container)
            case ["exec" | "attach" as verb, namespace, pod, *_, container]:
                return await self._enter(request, verb, self._pod(namespace, pod), container)
            case ["portForward", namespace, pod, *_]:
                found = self._pod(namespace, pod)
                forward = partial(self._kubelets.containers.forward, found)
                return await portforward.serve(request, forward, _pace, parameter="port")
        return await self._plain(request)

    async def _plain(self, request: web.Request) -> web.StreamResponse:
        """Answer as the endpoint that the simulated network reaches does."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Request(request.method, str(request.rel_url), headers, await request.read(), request.remote or "")
        found = await self._endpoint.respond(asked)
        told = {"Content-Type": "text/plain; charset=utf-8", **found.headers}
        return web.Response(status=found.status, body=found.body, headers=told)

    @property
    def _endpoint(self) -> HttpServer:
        return self._kubelets.endpoint(self._node)

    def _pod(self, namespace: str, name: str) -> Obj:
        """Return a pod that runs here. Raises ``ApiError`` 404."""
        pod = self._kubelets.pod(namespace, name)
        if pod is None:
            raise ApiError(404, "NotFound", "pod does not exist")
        return pod

    async def _log(self, request: web.Request, namespace: str, pod: str, container: str) -> web.StreamResponse:
        """Send a log, always in chunks: an API server that answers a WebSocket loses what comes with its length."""
        if self._kubelets.pod(namespace, pod) is None:
            return web.Response(status=404, text=NO_POD.format(pod))
        options, response = self._options(request.query), web.StreamResponse(headers={"Content-Type": "text/plain"})
        if request.query.get("follow") in TRUE:
            growing = self._kubelets.follow(namespace, pod, container, **options)
            pieces = limited(growing, options.get("limit_bytes"))
        else:
            pieces = _once(self._kubelets.logs(namespace, pod, container, **options))
        first = await anext(pieces, b"")
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    def _options(self, query: Mapping[str, str]) -> LogArguments:
        """Read a log's options; the API server has checked them."""
        numbers = {name: query[name] for name in ("tailLines", "limitBytes", "sinceSeconds") if name in query}
        try:
            tail, limit, seconds = (
                int(numbers[name]) if name in numbers else None
                for name in ("tailLines", "limitBytes", "sinceSeconds")
            )
            since = parse(query["sinceTime"]) if query.get("sinceTime") else None
        except ValueError as error:
            raise ApiError(400, "BadRequest", '{"message": "Unable to decode query."}') from error
        if seconds is not None:
            since = self._clock.now() - timedelta(seconds=min(seconds, 10**9))
        return {
            "previous": query.get("previous") in TRUE,
            "timestamps": query.get("timestamps") in TRUE,
            "tail_lines": tail,
            "limit_bytes": limit,
            "since_time": since,
        }

    async def _enter(self, request: web.Request, verb: str, pod: Obj, container: str) -> web.StreamResponse:
        query = request.query
        stdin, stdout, stderr, tty = (query.get(name) in TRUE for name in ("input", "output", "error", "tty"))
        wanted = remote.Wanted(stdin, stdout, stderr and not tty, tty)
        words = query.getall("command", [])

        def begin() -> Run:
            reached = self._kubelets.containers
            return reached.attach(pod, container) if verb == "attach" else reached.exec(pod, container, words)

        doing = "error attaching to container" if verb == "attach" else "error executing command in container"
        return await remote.serve(request, remote.Command(wanted, begin, doing, _pace))


async def _tell(request: web.Request, response: web.StreamResponse) -> None:
    """Keep to oneself what serves the node."""
    response.headers.pop("Server", None)


def _attempt(request: web.Request) -> Attempt:
    found = request.transport.get_extra_info("peercert") if request.transport is not None else None
    return Attempt(request.method, request.path, found, request.headers.get("Authorization", ""))


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def _pace(size: int) -> None:
    """Let others have their turn; the API server paces its own clients."""
    await asyncio.sleep(0)


KNOWN_S, ALLOWED_S, DENIED_S = 120.0, 300.0, 30.0
"""For how long an answer is believed: upstream's defaults."""
MOST_REMEMBERED = 1024
VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
PARTS = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint"}
FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
"""First part of a path -> subresource of nodes; for ``FINE`` the old one, proxy, counts as well."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Unauthorized(Exception):
    """401 or 403, in the kubelet's words."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Remembered(Generic[K, V]):
    """Answers that are believed for a while."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return an answer that is not too old."""
        found = self._found.get(key)
        return found[0] if found is not None and found[1] > self._clock.now().timestamp() else None

    def put(self, key: K, value: V, seconds: float) -> None:
        """Believe an answer for so many seconds."""
        self._found[key] = (value, self._clock.now().timestamp() + seconds)
        while len(self._found) > MOST_REMEMBERED:
            self._found.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a kubelet: how, where to, and by whom, as its TLS certificate and its headers tell."""

    method: str
    path: str
    certificate: Obj | None
    authorization: str


class Guard:
    """Answers for one node, with that node's own rights."""

    def __init__(self, client: Callable[[], Client], clock: Clock, node: str) -> None:
        self._client = client
        self._node = node
        self._users: Remembered[str, User] = Remembered(clock)
        self._rulings: Remembered[tuple[User, str, str], bool] = Remembered(clock)

    async def check(self, attempt: Attempt) -> None:
        """Raise ``Unauthorized`` for who is unknown, or may not; what asking raises where the API server is away."""
        user = await self._user(attempt)
        verb, subresources = VERBS.get(attempt.method, ""), _subresources(attempt.path)
        for subresource in subresources:
            if await self._may(user, verb, subresource):
                return
        named = " ".join(subresources)
        raise Unauthorized(
            403, f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{named}])\n"
        )

    async def _user(self, attempt: Attempt) -> User:
        if attempt.certificate:
            name, groups = holder_of(attempt.certificate)  # which TLS has verified
            return User(name, (*groups, AUTHENTICATED))
        scheme, _, token = attempt.authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized(401, "Unauthorized")
        known = self._users.get(token)
        if known is None:
            known = await self._review(token.strip())
            self._users.put(token, known, KNOWN_S)
        return known

    async def _review(self, token: str) -> User:
        """Ask whose token it is."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client().create("tokenreviews.authentication.k8s.io", review)
        status = answer.get("status") or {}
        if not status.get("authenticated"):
            raise Unauthorized(401, "Unauthorized")
        told = status.get("user") or {}
        name = told.get("username") or ANONYMOUS.name
        return User(name, tuple(told.get("groups") or ()), told.get("uid") or "", told.get("extra") or {})

    async def _may(self, user: User, verb: str, subresource: str) -> bool:
        """Ask what a user may do."""
        key = (user, verb, subresource)
        known = self._rulings.get(key)
        if known is None:
            answer = await self._client().create("subjectaccessreviews.authorization.k8s.io", self._question(*key))
            known = bool((answer.get("status") or {}).get("allowed"))
            self._rulings.put(key, known, ALLOWED_S if known else DENIED_S)
        return known

    def _question(self, user: User, verb: str, subresource: str) -> Obj:
        asked = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": self._node}
        who = {"user": user.name, "groups": list(user.groups), "uid": user.uid, "extra": user.extra}
        spec = {"resourceAttributes": asked, **{name: value for name, value in who.items() if value}}
        return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _subresources(path: str) -> list[str]:
    """Return the subresources of nodes that a path stands for: any one of them is enough."""
    first = path.strip("/").partition("/")[0]
    if first in FINE:
        return [FINE[first], "proxy"]
    return [PARTS.get(first, "proxy")]
