"""Programs of containers that serve HTTP until a signal comes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kubesim.network.fabric import HttpServer
from kubesim.network.pods import PodNetwork
from kubesim.shell.machine import Process

SIGNALLED = 2  # how a Go program ends that is told to


async def signalled(process: Process, *names: str) -> str:
    """Return the first of these signals that comes."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def take(name: str) -> None:
        if not came.done():
            came.set_result(name)

    process.handlers |= dict.fromkeys(names, take)
    return await came


async def serve(process: Process, ports: Mapping[int, HttpServer], code: int = SIGNALLED) -> int:
    """Listen until told to stop."""
    network = process.machine.network
    if isinstance(network, PodNetwork):
        for port, server in ports.items():
            network.listen(port, server)
    try:
        await process.flush()
        await signalled(process, "TERM", "INT")
        return code
    finally:
        if isinstance(network, PodNetwork):
            for port, server in ports.items():
                network.close(port, server)
