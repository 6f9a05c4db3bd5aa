"""HTTP requests to programs in a cluster, through the API server's proxy to pods and services."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson
import urllib3

from faults import errors
from faults.engine.model import Reply
from faults.kube.statuses import error_of

MAX_REPLY_BYTES = 64 * 1024
MAX_REPLY_S = 10.0
_CHUNK_BYTES = 8 * 1024
_CHARACTERS = "/%?&=+:@,;!$'()*~"
"""Characters kept as they are in an encoded path with its query."""
_UNREACHED = ("error trying to reach", "no endpoints available", "no service port", "address not allowed")
_NO_WAY = ("timeout", "no route to host", "network is unreachable", "address not allowed", "did not answer in time")
"""Message where a pod's network is out of the API server's reach, or perhaps only the program silent."""


def proxy_path(namespace: str, server: str, path: str) -> str:
    """Return the API server's path for a path of ``pods/NAME:PORT`` or ``services/NAME:PORT``."""
    kind, _, name = server.partition("/")
    collection = f"/api/v1/namespaces/{quote(namespace, safe='')}/{quote(kind, safe='')}"
    return f"{collection}/{quote(name, safe=':')}/proxy{encode_path(path)}"


def encode_path(path: str) -> str:
    """Return a path with its query as a request has it."""
    return quote(path, safe=_CHARACTERS)


def may_be_unreachable(error: errors.Unanswered) -> bool:
    """Return whether the API server may have no way to the network of pods: their kubelets may have one."""
    return any(words in error.message for words in _NO_WAY)


@contextmanager
def unanswered_in_time() -> Iterator[None]:
    """Take a proxy that does not answer for one whose program does not: the API server tells all else at once."""
    try:
        yield
    except errors.Unreachable as exc:
        reason = getattr(exc.__cause__, "reason", exc.__cause__)  # what urllib3 gave up for
        if isinstance(reason, urllib3.exceptions.ReadTimeoutError):
            raise errors.Unanswered(f"The program did not answer in time: {exc.message}") from exc
        raise


def read_reply(response: urllib3.BaseHTTPResponse) -> Reply:
    """Return a program's reply, cut off after ``MAX_REPLY_BYTES``.

    Raises Unanswered where the proxy reached no program or its answer takes too long, else the API server's refusal.
    """
    body = read_body(response)
    if _is_status(body) and response.status >= 400:
        error = error_of(response.status, body, response.headers)
        if any(words in error.message for words in _UNREACHED):
            raise errors.Unanswered(error.message)
        raise error
    return Reply(response.status, body)


def read_body(response: urllib3.BaseHTTPResponse) -> bytes:
    """Return a program's answer, cut off after ``MAX_REPLY_BYTES``. Raises Unanswered where it takes too long."""
    until, data = time.monotonic() + MAX_REPLY_S, b""
    try:
        for chunk in response.stream(_CHUNK_BYTES):
            data += chunk
            if len(data) >= MAX_REPLY_BYTES:
                break
            if time.monotonic() > until:
                raise errors.Unanswered(f"The answer was not complete after {MAX_REPLY_S:.0f} s.")
    except urllib3.exceptions.ReadTimeoutError:
        raise errors.Unanswered("The program stopped in the middle of its answer.") from None
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise errors.Unreachable(f"The answer broke off: {exc}") from exc
    finally:
        response.close()  # what is unread of it makes the connection useless
    return data[:MAX_REPLY_BYTES]


def _is_status(body: bytes) -> bool:
    """Return whether an answer is the API server's own: a Status."""
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(answer, Mapping) and (answer.get("kind"), answer.get("apiVersion")) == ("Status", "v1")
