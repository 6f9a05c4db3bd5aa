"""Commands in containers: the exec subresource over a WebSocket, bounded in time and output.

Whatever runs in a container may be made to flood its output, or never to end: what has come until then is the answer.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from faults import errors, heartbeat
from faults.engine.model import CommandLimits
from faults.kube.command_stream import CommandStream
from faults.kube.config import Access
from faults.kube.statuses import error_of

PROTOCOL = Subprotocol("v4.channel.k8s.io")
MAX_COMMAND_S = CommandLimits().seconds
MAX_HANDSHAKE_S = 10.0
"""Of the API server and the kubelet behind it, which are trusted to answer, and may have much to do."""
MAX_REFUSAL = 500
"""Characters of what a kubelet says that are passed on."""
TIMED_OUT = 124
"""The exit code of ``timeout`` from the coreutils."""
_STDOUT, _STDERR, _STATUS = 1, 2, 3


def run_command(
    access: Access,
    context: ssl.SSLContext,
    headers: Mapping[str, str],
    path: str,
    container: str,
    command: Sequence[str],
    limits: CommandLimits | None = None,
) -> tuple[int, str]:
    """Return the exit code of a command and what it wrote; 124 where it has not ended in time, or writes too much.

    ``path`` is the pod's exec subresource. Raises ``ClusterError``: ``NotFound`` where no such container runs.
    """
    limits = limits or CommandLimits(MAX_COMMAND_S)
    streams = [("container", container), ("stdout", "true"), ("stderr", "true")]
    query = urlencode([*streams, *(("command", word) for word in command)])
    try:
        with _connected(access, context) as sock:
            address = _address(access, f"{path}?{query}")
            with closing(CommandStream(sock, address, headers, PROTOCOL)) as stream:
                stream.shake_hands(MAX_HANDSHAKE_S)
                return _read(stream, limits)
    except InvalidStatus as exc:
        raise _refusal(exc) from exc
    except (InvalidHandshake, OSError) as exc:
        raise errors.Unreachable(f"{access.server} did not run a command: {exc}") from exc


@contextmanager
def _connected(access: Access, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    url = urlsplit(access.server)
    with socket.create_connection((url.hostname or "", url.port or 443), timeout=MAX_HANDSHAKE_S) as sock:
        if access.refusal is not None and (why := access.refusal(str(sock.getpeername()[0]))):
            raise errors.Unreachable(why, retryable=False)
        with context.wrap_socket(sock, server_hostname=access.tls_server_name or url.hostname) as wrapped:
            yield wrapped


def open_channels(
    access: Access, context: ssl.SSLContext, headers: Mapping[str, str], path: str
) -> tuple[CommandStream, ExitStack]:
    """Return a WebSocket with channels to a pod's subresource, with what closes it. Raises ``ClusterError``."""
    try:
        with ExitStack() as opened:
            sock = opened.enter_context(_connected(access, context))
            stream = opened.enter_context(closing(CommandStream(sock, _address(access, path), headers, PROTOCOL)))
            stream.shake_hands(MAX_HANDSHAKE_S)
            return stream, opened.pop_all()
    except InvalidStatus as exc:
        raise _refusal(exc) from exc
    except (InvalidHandshake, OSError) as exc:
        raise errors.Unreachable(f"{access.server} opened no connection to a pod: {exc}") from exc


def _address(access: Access, path: str) -> str:
    url = urlsplit(access.server)
    return f"wss://{url.netloc}{url.path.rstrip('/')}{path}"


def _read(stream: CommandStream, limits: CommandLimits) -> tuple[int, str]:
    until, output = time.monotonic() + limits.seconds, b""
    while (left := until - time.monotonic()) > 0 and len(output) < limits.output_bytes:
        heartbeat.beat()  # a command may take longer than the leases that it is run under
        try:
            message = stream.receive(min(left, heartbeat.EVERY_S))
        except TimeoutError:
            continue
        channel, data = (message[0], message[1:]) if message else (-1, b"")
        if channel == _STATUS:
            return _exit_code(data), _text(output[: limits.output_bytes])
        if channel in (_STDOUT, _STDERR):
            output += data
    return TIMED_OUT, _text(output[: limits.output_bytes])


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def _exit_code(data: bytes) -> int:
    """Return the exit code from the Status at the end of a command; 1 where it tells none."""
    try:
        status: Any = json.loads(data)
        if status.get("status") == "Success":
            return 0
        causes = status["details"]["causes"]
        return int(next(cause["message"] for cause in causes if cause.get("reason") == "ExitCode"))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
        return 1


def _refusal(exc: InvalidStatus) -> errors.ClusterError:
    """Return the API server's refusal; a kubelet says with 500 that a container does not run, as plain text."""
    body = bytes(exc.response.body or b"")
    error, text = error_of(exc.response.status_code, body, dict(exc.response.headers.raw_items())), _text(body)
    if "container not found" in text or "is not running" in text:
        return errors.NotFound(text[:MAX_REFUSAL])
    return error
