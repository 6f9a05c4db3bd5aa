"""HTTP to a Prometheus that nobody vouches for: bounded in size and time, without redirects, proxies or files.

``requests`` takes certificates from files only and adds the public authorities to whatever a context trusts; the
adapter here uses the cluster's own TLS context alone.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from faults.kube.checked_connections import Refusal, checked_pools

MAX_BYTES = 5_000_000
MAX_ANSWER_S = 4.0
_CHUNK = 65536


class AnswerRefused(requests.RequestException):
    """An answer that is too large or too slow."""


class BoundedSession(requests.Session):
    """A session that reads at most ``MAX_BYTES`` of an answer, for at most ``MAX_ANSWER_S`` seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False  # no proxies, no .netrc, no authorities of the environment

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request and read its answer within the bounds. Raises ``requests.RequestException``."""
        kwargs |= {"allow_redirects": False, "stream": True}  # a redirect would carry the token elsewhere
        began = time.monotonic()
        with super().request(*args, **kwargs) as answer:
            answer._content = _read(answer, began + MAX_ANSWER_S)
        return answer


class ClusterAdapter(HTTPAdapter):
    """Connections with a TLS context and server name of their own, whose peers' addresses may be checked."""

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        *,
        server_name: str = "",
        refusal: Refusal | None = None,
        pools: Mapping[str, type[urllib3.HTTPConnectionPool]] | None = None,
    ) -> None:
        """``pools``: by scheme, where connections come about in another way."""
        self._pool: dict[str, Any] = {"ssl_context": context} if context else {}
        if server_name:
            self._pool["server_hostname"] = server_name
        self._pools = checked_pools(refusal) if refusal is not None else pools
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **(kwargs | self._pool))
        if self._pools is not None:
            self.poolmanager.pool_classes_by_scheme = dict(self._pools)

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, verify: bool | str, cert: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Keep what the context trusts where there is one: nothing is added from files."""
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, {} if self._pool else pool

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:
        """Leave certificates to the context where there is one."""
        if not self._pool:
            super().cert_verify(conn, url, verify, cert)


def _read(answer: requests.Response, until: float) -> bytes:
    """Return the body. Chunks are counted unpacked, so that a small archive cannot become a large text."""
    body = bytearray()
    for chunk in answer.iter_content(_CHUNK):
        body += chunk
        if len(body) > MAX_BYTES:
            raise AnswerRefused(f"The answer is larger than {MAX_BYTES // 1_000_000} MB.")
        if time.monotonic() > until:
            raise AnswerRefused(f"The answer took more than {MAX_ANSWER_S:.0f} s.")
    return bytes(body)
