"""The network below names and pages: ping, nc."""

from __future__ import annotations

import asyncio

from kubesim.shell.errors import NetworkError
from kubesim.shell.handles import CHUNK, Reader
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import SYN_S, UNKNOWN, resolve
from kubesim.shell.tools import kit


async def ping(process: Process) -> int:
    """Send echo requests; containers may not, or the network does not answer them."""
    opts = await kit.options(process, "c:W:w:i:qnI:s:46")
    if not opts.args:
        await kit.usage(process, "usage error: Destination address required")
    name = opts.args[0]
    try:
        address = (await resolve(process, name))[0]
    except NetworkError:
        return await process.fail(
            f"bad address '{name}'" if process.busybox else f"{name}: Name or service not known",
            1 if process.busybox else 2,
        )
    count = int(opts.get("c")) if opts.get("c").isdecimal() else 1 << 30
    await process.write(
        f"PING {name} ({address}){': 56 data bytes' if process.busybox else ' 56(84) bytes of data.'}\n"
    )
    sent = 0
    while sent < count:
        sent += 1
        await process.sleep(1.0)
    await process.write(
        f"\n--- {name} ping statistics ---\n"
        f"{sent} packets transmitted, 0 received, 100% packet loss, time {sent * 1000}ms\n\n"
    )
    return 1


async def nc(process: Process) -> int:
    """Open a connection and pass bytes both ways."""
    opts = await kit.options(process, "zvw:lnup:Nq:i:", {"zero": "z"})
    if len(opts.args) < 2 or not opts.args[1].isdecimal() or "l" in opts:
        return await process.fail(
            "missing port number" if len(opts.args) < 2 else "listening is not supported on this address"
        )
    name, port = opts.args[0], int(opts.args[1])
    try:
        address = (await resolve(process, name))[0]
        if process.machine.network is None:
            raise NetworkError("refused")
        reader, writer = await process.machine.network.connect(address, port)
    except NetworkError as error:
        return await _unreached(process, error, name, port, opts)
    if "v" in opts:
        await process.error(
            f"Connection to {name} {port} port [tcp/*] succeeded!\n"
            if not process.busybox
            else f"{name} ({address}:{port}) open\n"
        )
    if "z" in opts:
        return 0
    incoming = asyncio.ensure_future(_pump(process, reader))
    try:
        while data := await process.read():
            await writer.write(data)
        await incoming
    finally:
        incoming.cancel()
    return 0


async def _unreached(process: Process, error: NetworkError, name: str, port: int, opts: kit.Options) -> int:
    """Say, once the kernel has given up, why there is no connection; without -v only where the name is unknown."""
    limit = float(opts.get("w")) if opts.get("w").isdecimal() else SYN_S
    if error.kind == "timeout":
        await process.sleep(min(limit, SYN_S))
    why = {"timeout": "Connection timed out", "unreachable": "No route to host"}.get(error.kind, "Connection refused")
    late = error.kind == "timeout" and limit < SYN_S
    if error.kind in UNKNOWN:
        unknown = f'getaddrinfo for host "{name}" port {port}: {UNKNOWN[error.kind]}'
        return await process.fail(f"bad address '{name}'" if process.busybox else unknown)
    if process.busybox:
        return await process.fail("timed out" if late else f"{name} ({name}:{port}): {why}")
    why = "timed out: Operation now in progress" if late else f"failed: {why}"
    return await process.fail(f"connect to {name} port {port} (tcp) {why}") if "v" in opts else 1


async def _pump(process: Process, reader: Reader) -> None:
    while data := await reader.read(CHUNK):
        await process.write(data)
        await process.flush()


TOOLS: dict[str, Tool] = {
    "ping": ping,
    "nc": nc,
}
