"""Kubelets of other processes, asked as a real API server asks them: where their Node objects say that they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import quote_plus

from aiohttp import ClientError, ClientResponse

from kubesim.api.backend import LogRequest
from kubesim.api.status import bad_request
from kubesim.errors import ApiError, Obj
from kubesim.network.fabric import Fabric
from kubesim.outside import Call, DialError, Target, kubelet_of, whole
from kubesim.streaming import outgoing
from kubesim.streaming.hijack import SpdyProtocol
from kubesim.streaming.remote import Wanted
from kubesim.streaming.seam import Forward, Run, Unreached
from kubesim.times import stamp

LONGEST_ERROR = 50_000
REFUSED = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "{}"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}
"""What an API server makes of a kubelet's refusals to show a log."""
UNEXPECTED = ("InternalError", 'an error on the server ("{}") has prevented the request from succeeding')


class ForeignKubelets:
    """Logs and containers on nodes that are not ours; ``find`` returns a Node and raises ``ApiError`` 404."""

    def __init__(self, find: Callable[[str], Obj], fabric: Fabric) -> None:
        self._find = find
        self._fabric = fabric

    async def read(self, pod: Obj, wanted: LogRequest) -> AsyncGenerator[bytes, None]:
        """Yield a container's log. Raises ``ApiError`` as the kubelet answers, or where there is none."""
        target = self.kubelet(pod)
        path = log_path(wanted)
        try:
            async with self._fabric.outside.asked(target, Call("GET", path)) as answer:
                await _check(answer, wanted.pod)
                async for piece in answer.content.iter_any():
                    yield piece
        except DialError as error:
            raise ApiError(500, "", f'Get "{target.url(path)}": {error}') from error
        except ClientError:
            return  # the kubelet has gone while it told: upstream's answer ends there, too

    @asynccontextmanager
    async def command(
        self, verb: str, pod: Obj, container: str, words: Sequence[str], wanted: Wanted
    ) -> AsyncIterator[Run]:
        """Yield what runs a command in a container (verb ``exec``) or joins its own process (``attach``)."""
        async with self._opened(verb, pod, command_path(container, words, wanted), outgoing.COMMANDS) as carrier:
            yield outgoing.Command(carrier.spdy, wanted)

    @asynccontextmanager
    async def forward(self, pod: Obj, lost: Callable[[], object]) -> AsyncIterator[Forward]:
        """Yield what reaches a pod's ports; ``lost`` is called where the kubelet goes first."""
        async with self._opened("portForward", pod, "", outgoing.PORTS) as carrier:
            watching = asyncio.ensure_future(carrier.gone.wait())
            watching.add_done_callback(lambda found: None if found.cancelled() else lost())
            try:
                yield outgoing.Ports(carrier.spdy)
            finally:
                watching.cancel()

    @asynccontextmanager
    async def _opened(self, verb: str, pod: Obj, rest: str, protocol: str) -> AsyncIterator[SpdyProtocol]:
        """Yield SPDY with a pod's kubelet. Raises ``Refused``, ``Unreached`` and ``ApiError``."""
        target, meta = self.kubelet(pod), pod["metadata"]
        path = f"/{verb}/{meta['namespace']}/{meta['name']}{rest}"
        call = Call("POST", path, outgoing.headers(protocol))
        async with AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(self._fabric.outside.asked(target, call))
            except DialError as error:
                asked = f'Post "{target.url(path)}": {error}'
                raise Unreached(f"error dialing backend: {error.dialled}", asked) from error
            yield await stack.enter_async_context(outgoing.upgraded(answer))

    def kubelet(self, pod: Obj) -> Target:
        """Return where a pod's kubelet is. Raises ``ApiError``."""
        return kubelet_of(self._find(pod["spec"]["nodeName"]))


def log_path(wanted: LogRequest) -> str:
    """Return where a kubelet is asked for a log."""
    return f"/containerLogs/{wanted.namespace}/{wanted.pod}/{wanted.container}{_query(_log_options(wanted))}"


def command_path(container: str, words: Sequence[str], wanted: Wanted) -> str:
    """Return the end of the path by which a kubelet is asked to enter a container."""
    flags = {"input": wanted.stdin, "output": wanted.stdout, "error": wanted.stderr, "tty": wanted.tty}
    query = [*(("command", word) for word in words), *((name, "1") for name, on in flags.items() if on)]
    return f"/{container}{_query(query)}"


async def _check(answer: ClientResponse, pod: str) -> None:
    """Raise what an API server makes of a kubelet's error."""
    if 200 <= answer.status <= 206:
        return
    text = (await whole(answer, LONGEST_ERROR)).decode("utf-8", "replace")
    if answer.status == 400:
        raise bad_request(text)
    if answer.status == 500:
        raise ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})
    reason, said = REFUSED.get(answer.status, UNEXPECTED)
    code = answer.status if 300 <= answer.status < 600 else 500
    raise ApiError(code, reason, f"{said.format(text)} ( pods/log {pod})", {"name": pod, "kind": "pods/log"})


def _log_options(wanted: LogRequest) -> list[tuple[str, str]]:
    flags = {"follow": wanted.follow, "previous": wanted.previous, "timestamps": wanted.timestamps}
    numbers = {"tailLines": wanted.tail_lines, "limitBytes": wanted.limit_bytes}
    since = [("sinceTime", stamp(wanted.since))] if wanted.since else []
    return (
        [(name, "true") for name, on in flags.items() if on]
        + [(name, str(value)) for name, value in numbers.items() if value is not None]
        + since
    )


def _query(values: Sequence[tuple[str, str]]) -> str:
    """Return a query as Go writes it: by name, values of one name in their order."""
    text = "&".join(f"{name}={quote_plus(value)}" for name, value in sorted(values, key=lambda pair: pair[0]))
    return f"?{text}" if text else ""
