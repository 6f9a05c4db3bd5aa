"""A kubelet's port on a real network: HTTPS, with everything that API servers and scrapers ask of a kubelet."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from functools import partial

from aiohttp import web

from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import Kubelets
from kubesim.kubelet.logs import LogArguments
from kubesim.listener import Listener, close
from kubesim.malformed_http import Runner
from kubesim.network.fabric import HttpServer, Request
from kubesim.nodes.webhooks import Attempt, Guard
from kubesim.nodes.webhooks import Refused as Unauthorized
from kubesim.streaming import portforward, remote
from kubesim.streaming.seam import Refused, Run, ready
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
                return await portforward.serve(request, lambda: ready(forward), _pace, parameter="port")
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
            pieces = _limited(growing, options.get("limit_bytes"))
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
        return await remote.serve(request, remote.Command(wanted, lambda: ready(begin, wanted.check), doing, _pace))


async def _tell(request: web.Request, response: web.StreamResponse) -> None:
    """Keep to oneself what serves the node."""
    response.headers.pop("Server", None)


def _attempt(request: web.Request) -> Attempt:
    found = request.transport.get_extra_info("peercert") if request.transport is not None else None
    return Attempt(request.method, request.path, found, request.headers.get("Authorization", ""))


async def _once(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def _limited(pieces: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    """Yield pieces until so many bytes have passed."""
    left = limit
    async for piece in pieces:
        yield piece if left is None else piece[:left]
        left = None if left is None else left - len(piece)
        if left is not None and left <= 0:
            return


async def _pace(size: int) -> None:
    """Let others have their turn; the API server paces its own clients."""
    await asyncio.sleep(0)
