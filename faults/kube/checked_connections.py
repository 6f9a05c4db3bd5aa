"""Connections that end before their first byte where they lead to an address that nothing of ours may ask."""

from __future__ import annotations

import socket
from collections.abc import Callable

import urllib3

Refusal = Callable[[str], str]
"""The reason for which no connection may lead to an IP address; empty where one may."""


def checked_pools(refusal: Refusal) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """Return pools by scheme whose connections end before TLS, and so before any token.

    A name that was harmless when it was looked at may lead elsewhere by now: what counts is the peer's address.
    """

    class CheckedHTTPConnection(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return _checked(self, super()._new_conn(), refusal)

    class CheckedHTTPSConnection(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return _checked(self, super()._new_conn(), refusal)

    class CheckedHTTPPool(urllib3.HTTPConnectionPool):
        ConnectionCls = CheckedHTTPConnection

    class CheckedHTTPSPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = CheckedHTTPSConnection

    return {"http": CheckedHTTPPool, "https": CheckedHTTPSPool}


def _checked(connection: urllib3.connection.HTTPConnection, made: socket.socket, refusal: Refusal) -> socket.socket:
    if why := refusal(str(made.getpeername()[0])):
        made.close()
        raise urllib3.exceptions.NewConnectionError(connection, why)
    return made
