"""Connections that are really closed before their event loop ends, also those whose other side says no goodbye."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl

from aiohttp import web

from kubesim.clock import RealClock
from kubesim.connections import Connections
from kubesim.listener import close
from kubesim.pki import CertificateAuthority
from kubesim.serve import Address, listen, tls_context


async def silent(sock, context):
    """Serve on a socket for somebody who has connected and says nothing more, in the middle of TLS's greeting."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.SockSite(runner, sock, ssl_context=context).start()
    _, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
    while not [*sock.connections._sockets]:
        await asyncio.sleep(0)
    await close(runner, sock)
    assert [found.fileno() for found in sock.connections._sockets if found.fileno() >= 0] == []
    writer.transport.abort()


async def test_a_server_leaves_no_connection_open_that_was_still_greeting():
    context = tls_context(CertificateAuthority.create(RealClock().now()), "127.0.0.1", RealClock())
    await silent(listen(Address()), context)
    gc.collect()


async def test_a_client_leaves_no_connection_open_whose_server_says_no_goodbye():
    authority = CertificateAuthority.create(RealClock().now())
    context = tls_context(authority, "127.0.0.1", RealClock())
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet():
            connection, _ = server.accept()
            with context.wrap_socket(connection, server_side=True) as greeted:
                greeted.recv(1)  # until the other side hangs up, without an answer

        serving = asyncio.create_task(asyncio.to_thread(greet))
        connections = Connections()
        sock = connections.make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)))
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        _, writer = await asyncio.open_connection(sock=sock, ssl=trust, server_hostname="127.0.0.1")
        writer.close()
        await connections.end()
        assert sock.fileno() == -1
        await serving


async def test_what_was_never_connected_is_left_alone():
    connections = Connections()
    with connections.make((socket.AF_INET, socket.SOCK_STREAM, 0, "", None)) as sock:
        await connections.end()
        assert sock.fileno() >= 0
