"""The answers that do not end at once: watches and logs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from datetime import timedelta

from aiohttp import web

from kubesim.api.answers import NO_CACHE, Encoder
from kubesim.api.backend import Backend, LogRequest
from kubesim.api.convert import all_served, to_served
from kubesim.api.durations import parse_time
from kubesim.api.listing import check_number
from kubesim.api.negotiate import parse_bool, parse_int
from kubesim.api.optionrules import check_read
from kubesim.api.requestinfo import RequestInfo
from kubesim.api.selectors import matcher, parse_fields, parse_labels
from kubesim.api.status import FieldError, bad_request, forbidden_field, invalid, invalid_value, not_found
from kubesim.api.watch import BOOKMARK_SECONDS, Watch, WatchOptions, error_line
from kubesim.asking import answered
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Stored
from kubesim.streaming.upgrade import is_websocket

DEFAULT_WATCH_SECONDS = 3600.0  # upstream: 30 to 60 minutes at random
WATCH_TYPE = "application/json"
LOG_PROTOCOLS = ("binary.k8s.io", "base64.binary.k8s.io")
LOG_OPTIONS = Kind("", "v1", "PodLogOptions", "pods/log")


async def watch(
    backend: Backend,
    request: web.Request,
    info: RequestInfo,
    kind: Kind,
    namespace: str,
    encoder: Encoder,
    user: User,
) -> web.StreamResponse:
    """Stream the changes of a collection until the client, the time or the user's rights end it."""
    options = _watch_options(backend, request, kind, namespace, encoder)
    if options.ask is not None:
        present = backend.store.list(kind, namespace)
        await answered(options.ask, lambda: all_served(kind, present))
    seconds = parse_int("timeoutSeconds", request.query.get("timeoutSeconds", ""))
    stream = Watch(backend.store, options, lambda: abort(request))
    response = web.StreamResponse(headers={**NO_CACHE, "Content-Type": WATCH_TYPE})
    try:
        with backend.fairness.stream(user):
            async with backend.guard.stream(
                still_allowed(backend, request, info, user), seconds or DEFAULT_WATCH_SECONDS
            ):
                await response.prepare(request)
                await _pump(stream, response, backend, user)
    except ConnectionResetError:
        return response  # the client has gone
    finally:
        stream.close()
    with suppress(ConnectionResetError):
        await response.write(stream.bookmark())
        await response.write_eof()
    return response


async def _pump(stream: Watch, response: web.StreamResponse, backend: Backend, user: User) -> None:
    """Send what the watch yields, for ever; a history that is gone is told and ends it."""
    try:
        stream.open()
    except ApiError as error:
        await response.write(error_line(error))
        return
    while True:
        try:
            chunk = await stream.next_chunk(BOOKMARK_SECONDS)
        except ApiError as error:  # a webhook does not convert what has changed
            await response.write(error_line(error))
            return
        await response.write(chunk or stream.bookmark())
        if pause := backend.fairness.charge(user, len(chunk)):
            await backend.clock.sleep(pause)


def _watch_options(
    backend: Backend, request: web.Request, kind: Kind, namespace: str, encoder: Encoder
) -> WatchOptions:
    """Read the query of a watch; raises 400 and 422 before the stream begins."""
    query = request.query
    version = query.get("resourceVersion", "")
    initial = query.get("sendInitialEvents")
    initial_events = None if initial is None else parse_bool(initial)
    parse_int("limit", query.get("limit", ""))
    check_read(query, initial_events, watch=True)
    check_number(version)
    fields = parse_fields(query.get("fieldSelector", ""), kind)
    headers = _once()
    selects = matcher(parse_labels(query.get("labelSelector", "")), fields)
    converted = kind.custom is not None and kind.custom.converter is not None

    def encode(obj: Stored) -> bytes:
        encoder.now = backend.clock.now()
        served = to_served(kind, obj)
        stored = served if isinstance(served, Stored) else Stored.seal(served)
        return encoder.line(stored, headers=headers())

    return WatchOptions(
        kind,
        namespace,
        (lambda obj: selects(to_served(kind, obj))) if converted else selects,
        encode,
        version,
        backend.operations.ask if converted else None,
        parse_bool(query.get("allowWatchBookmarks")),
        initial_events,
    )


def _once() -> Callable[[], bool]:
    """Return a call that says True the first time only."""
    fresh = [True]
    return lambda: fresh.pop() if fresh else False


def abort(request: web.Request) -> None:
    """Cut off a client that does not read."""
    if request.transport is not None:
        with suppress(AttributeError):  # see kubesim.serve._close
            request.transport.abort()


def still_allowed(backend: Backend, request: web.Request, info: RequestInfo, user: User) -> Callable[[], bool]:
    """Return the question whether the request would be allowed now."""

    def allowed() -> bool:
        try:
            backend.asker(request)
        except ApiError:
            return False
        return backend.authorizer.allows(user, info.attributes())

    return allowed


async def log(backend: Backend, request: web.Request, info: RequestInfo, user: User) -> web.StreamResponse:
    """Send a container's log, following it if asked to."""
    pods = backend.operations.registry.by_resource("pods")
    pod = backend.store.get(pods, info.namespace, info.name)
    if pod is None:
        raise not_found(pods, info.name)
    wanted = _log_request(backend, request, info, pod)
    headers = {**NO_CACHE, "Content-Type": "text/plain"}
    response, at_once = web.StreamResponse(headers=headers), wanted.follow or is_websocket(request)
    if is_websocket(request):
        response = web.WebSocketResponse(protocols=LOG_PROTOCOLS, compress=False)
    with backend.fairness.stream(user):
        async with (
            backend.guard.stream(still_allowed(backend, request, info, user)),
            aclosing(backend.nodes.read(pod, wanted)) as pieces,
        ):
            first = await anext(pieces, b"")
            second = b"" if at_once else await anext(pieces, b"")
            if not (at_once or second):  # all of it is there: one packet
                backend.fairness.charge(user, len(first))
                response = web.Response(body=first, headers=headers)
                response.enable_chunked_encoding()
                return response
            await response.prepare(request)
            if first or is_websocket(request):  # an empty message tells that the socket is open
                await _send(first + second, response, backend, user)
            async for piece in pieces:
                await _send(piece, response, backend, user)
    if not response.prepared:
        raise ApiError(401, "Unauthorized", "Unauthorized")
    if isinstance(response, web.WebSocketResponse):
        await response.close()
    else:
        await response.write_eof()
    return response


async def _send(piece: bytes, response: web.StreamResponse, backend: Backend, user: User) -> None:
    """Write a piece of a log, at the pace that the user's share allows."""
    if not isinstance(response, web.WebSocketResponse):
        await response.write(piece)
    elif response.ws_protocol == LOG_PROTOCOLS[1]:
        await response.send_str(base64.b64encode(piece).decode())
    else:
        await response.send_bytes(piece)
    if pause := backend.fairness.charge(user, len(piece)):
        await backend.clock.sleep(pause)


def _log_request(backend: Backend, request: web.Request, info: RequestInfo, pod: Stored) -> LogRequest:
    """Read the query of a log request; raises 400 and 422 with upstream's texts."""
    query = request.query
    numbers = {name: parse_int(name, query.get(name, "")) for name in ("sinceSeconds", "tailLines", "limitBytes")}
    since, tail, limit = numbers.values()
    moment = backend.clock.now() - timedelta(seconds=min(since, 10**9)) if since is not None else None
    if text := query.get("sinceTime", ""):
        moment = parse_time(text)
        if moment is None:
            raise bad_request(f'sinceTime: Invalid value: "{text}": must be an RFC 3339 time')
    if errors := _log_errors(numbers, both=bool(since is not None and text), stream=query.get("stream", "")):
        raise invalid(LOG_OPTIONS, info.name, errors)
    return LogRequest(
        info.namespace,
        info.name,
        container_of(pod, query.get("container", "")),
        parse_bool(query.get("previous")),
        parse_bool(query.get("follow")),
        parse_bool(query.get("timestamps")),
        tail,
        limit,
        moment,
    )


def _log_errors(numbers: Mapping[str, int | None], *, both: bool, stream: str) -> list[FieldError]:
    """Return what is wrong with the options of a log request, in upstream's order."""
    errors, since, tail, limit = [], numbers["sinceSeconds"], numbers["tailLines"], numbers["limitBytes"]
    if tail is not None and tail < 0:
        errors.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(invalid_value("limitBytes", limit, "must be greater than 0"))
    if both:
        errors.append(forbidden_field("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.append(invalid_value("sinceSeconds", since, "must be greater than 0"))
    if stream:
        errors.append(forbidden_field("stream", "may not be specified"))
    return errors


def container_of(pod: Obj, name: str) -> str:
    """Return the container that is meant; a pod with one needs no name. Raises 400."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    groups = ("initContainers", "containers", "ephemeralContainers")
    everything = [container["name"] for group in groups for container in spec.get(group) or ()]
    if name and name not in everything:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if name or len(spec["containers"]) == 1:
        return name or str(spec["containers"][0]["name"])
    choices = " ".join(everything)
    raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{choices}]")
