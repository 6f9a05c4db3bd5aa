"""nc: connections by hand."""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED as FIRST
from typing import Any

from kubesim.shell.errors import NetworkError
from kubesim.shell.handles import CHUNK, Reader
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import SYN_S, UNKNOWN, resolve
from kubesim.shell.tools import kit


async def nc(process: Process) -> int:
    """Open a connection and pass bytes both ways."""
    opts = await kit.options(process)
    if "l" in opts:
        return await _listen(process, opts)
    if len(opts.args) < 2 or not opts.args[1].isdecimal():
        return await process.fail("missing port number")
    name, port = opts.args[0], int(opts.args[1])
    try:
        address = (await resolve(process, name))[0]
        if process.machine.network is None:
            raise NetworkError("refused")
        reader, writer = await process.machine.network.connect(address, port)
    except NetworkError as error:
        return await _unreached(process, error, name, port, opts)
    if "v" in opts:
        await process.error(f"Connection to {name} {port} port [tcp/*] succeeded!\n")
    if "z" in opts:
        return 0
    incoming = asyncio.ensure_future(_pump(process, reader))
    try:
        while data := await process.read():
            await writer.write(data)
        if opts.any("Nq") and (close := getattr(writer, "close", None)) is not None:
            close()
        limit = kit.decimal(opts.get("w"), 0.0)
        await (
            asyncio.wait({incoming, asyncio.ensure_future(process.sleep(limit))}, return_when=FIRST)
            if limit
            else incoming
        )
    finally:
        incoming.cancel()
    return 0


class _Listener:
    """A port on which nc takes one connection."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.done = asyncio.Event()

    async def respond(self, request: Any) -> Any:
        """Never answer, as what only prints does not."""
        raise NetworkError("timeout")

    async def converse(self, connection: Any, source: str) -> None:
        """Print what comes."""
        await _pump(self._process, connection)
        self.done.set()


async def _listen(process: Process, opts: kit.Options) -> int:
    """Wait for one connection (``-l``); the port is an operand, or with BusyBox' nc a value of ``-p``."""
    port = opts.get("p") or (opts.args[-1] if opts.args else "")
    if not port.isdecimal() or process.machine.network is None:
        return await process.fail("missing port number")
    listener = _Listener(process)
    process.machine.network.listen(int(port), listener)
    if "v" in opts:
        await process.error(f"Listening on 0.0.0.0 {port}\n")
    try:
        await listener.done.wait()
    finally:
        process.machine.network.close(int(port), listener)
    return 0


async def _unreached(process: Process, error: NetworkError, name: str, port: int, opts: kit.Options) -> int:
    """Say, once the kernel has given up, why there is no connection; without -v only where the name is unknown."""
    limit = float(opts.get("w")) if opts.get("w").isdecimal() else SYN_S
    if error.kind == "timeout":
        await process.sleep(min(limit, SYN_S))
    why = {"timeout": "Connection timed out", "unreachable": "No route to host"}.get(error.kind, "Connection refused")
    late = error.kind == "timeout" and limit < SYN_S
    if error.kind in UNKNOWN:
        return await process.fail(f'getaddrinfo for host "{name}" port {port}: {UNKNOWN[error.kind]}')
    why = "timed out: Operation now in progress" if late else f"failed: {why}"
    return await process.fail(f"connect to {name} port {port} (tcp) {why}") if "v" in opts else 1


async def _pump(process: Process, reader: Reader) -> None:
    while data := await reader.read(CHUNK):
        await process.write(data)
        await process.flush()


TOOLS: dict[str, Tool] = {"nc": nc}
