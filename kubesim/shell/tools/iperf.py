"""iperf3: how much goes through the network between two pods."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.handles import Reader, Writer
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import CODES, network, resolve
from kubesim.shell.tools import kit
from kubesim.shell.wayout import Hop

PORT, SECONDS, MAX_SECONDS = 5201, 10, 3600
FAR_GBITS, NEAR_GBITS, NEAR_MS = 16.1, 34.7, 0.2
"""The throughput of one stream from one machine to another, and within one."""
ACCEPTED = b"\x09"
LINE = "-" * 59 + "\n"
RULE = "- - - - - - - - - - - - - - - - - - - - - - - - -\n"
HEAD = "[ ID] Interval           Transfer     Bitrate"
CONNECT = (
    "unable to connect to server - server may have stopped running or use a different port, firewall issue, etc.: "
)


class _Listener:
    """The server's end: takes one test after another, and tells of each."""

    def __init__(self, process: Process, port: int) -> None:
        self._process, self._port, self._tests = process, port, 1

    def waiting(self) -> str:
        """Return what it says before each test."""
        return f"{LINE}Server listening on {self._port} (test #{self._tests})\n{LINE}"

    async def respond(self, request: Any) -> Any:
        """Speak no HTTP."""
        raise NetworkError("reset")

    async def converse(self, connection: Any, source: str) -> None:
        """Take a test: the client tells how long it takes, and hangs up at its end."""
        asked = (await connection.read()).split()
        if asked[:1] != [b"iperf3"]:
            return
        seconds, gbits, local = int(asked[1]), float(asked[2]), self._process.machine.address
        await connection.write(ACCEPTED)
        await self._say(f"Accepted connection from {source}, port {_source_port(source)}\n")
        await self._say(
            f"[  5] local {local} port {self._port} connected to {source} port {_source_port(source) + 2}\n"
        )
        await connection.read()
        total = _row(0, seconds, gbits)
        self._tests += 1
        await self._say(f"{RULE}{HEAD}\n{total}{'':18}receiver\n{self.waiting()}")

    async def _say(self, text: str) -> None:
        await self._process.write(text)
        await self._process.flush()


def _source_port(address: str) -> int:
    return 32768 + zlib.crc32(address.encode()) % 28000


def _gbits(way: list[Hop], number: int) -> float:
    """Return the bit rate of one second of a stream."""
    far = way[-1].rtt > NEAR_MS if way else True
    return (FAR_GBITS if far else NEAR_GBITS) * (0.97 + zlib.crc32(f"{way[-1:]}/{number}".encode()) % 500 / 10_000)


def _row(begin: float, end: float, gbits: float) -> str:
    """Return a line's interval, transfer and bit rate."""
    size = gbits * (end - begin) / 8 * 1e9 / (1 << 30)
    return f"[  5] {f'{begin:.2f}-{end:.2f}':>11}  sec  {size:.2f} GBytes  {gbits:.1f} Gbits/sec"


async def iperf3(process: Process) -> int:
    """Measure as a client, or be measured as a server."""
    opts = await kit.options(process)
    port = int(kit.decimal(opts.get("p"), PORT))
    if "s" in opts:
        return await _serve(process, port)
    if "c" not in opts:
        await process.error("iperf3: parameter error - must either be a client (-c) or server (-s)\n\n")
        return 1
    try:
        address = (await resolve(process, opts.get("c")))[0]
        reader, writer = await network(process).connect(address, port)
        way = await network(process).path(address)
    except NetworkError as error:
        if error.kind == "timeout":
            await process.sleep(130.0)
        return await process.fail(f"error - {CONNECT}{FileError(CODES.get(error.kind, 'ECONNREFUSED')).text}")
    seconds = min(int(kit.decimal(opts.get("t"), SECONDS)), MAX_SECONDS)
    return await _measure(process, (reader, writer), way, (address, port), seconds)


async def _serve(process: Process, port: int) -> int:
    served, way = _Listener(process, port), network(process)
    await process.write(served.waiting())
    await process.flush()
    way.listen(port, served)
    try:
        await asyncio.Event().wait()
    finally:
        way.close(port, served)
    return 0


async def _measure(
    process: Process, ends: tuple[Reader, Writer], way: list[Hop], place: tuple[str, int], seconds: int
) -> int:
    (reader, writer), (address, port) = ends, place
    local = process.machine.address
    rates = [_gbits(way, number) for number in range(seconds)]
    mean = sum(rates) / max(len(rates), 1)
    await writer.write(f"iperf3 {seconds} {mean:.2f}".encode())
    if await reader.read(1) != ACCEPTED:
        return await process.fail("error - control socket has closed unexpectedly")
    await process.write(f"Connecting to host {address}, port {port}\n")
    await process.write(f"[  5] local {local} port {_source_port(local) + 2} connected to {address} port {port}\n")
    await process.write(f"{HEAD}{'':9}Retr  Cwnd\n")
    for number, rate in enumerate(rates):
        await process.sleep(1.0)
        await process.write(f"{_row(number, number + 1, rate)}    0   3.05 MBytes\n")
    close = getattr(writer, "close", None)
    if close is not None:
        close()
    await process.write(f"{RULE}{HEAD}{'':9}Retr\n{_row(0, seconds, mean)}    0{'':13}sender\n")
    await process.write(f"{_row(0, seconds + 0.04, mean * 0.997)}{'':18}receiver\n\niperf Done.\n")
    return 0


TOOLS: dict[str, Tool] = {"iperf3": iperf3}
