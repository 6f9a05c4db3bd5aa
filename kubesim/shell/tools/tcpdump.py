"""tcpdump: the packets that come to a container and leave it while somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.wayout import Packet

Test = Callable[[Packet], bool]
PROTOCOLS = ("tcp", "udp", "icmp", "arp")
FULL = ", snapshot length 262144 bytes\n"
QUIET = "tcpdump: verbose output suppressed, use -v[v]... for full protocol decode\n"


class Wrong(ValueError):
    """A filter that cannot be parsed."""


def _test(words: list[str]) -> Test:
    """Return the test of a filter: primitives with ``and``, ``or`` and ``not``, which binds most."""
    alternatives: list[list[Test]] = [[]]
    while words:
        word = words.pop(0)
        if word in ("or", "||"):
            alternatives.append([])
        elif word not in ("and", "&&"):
            alternatives[-1].append(_primitive(word, words))
    return lambda packet: any(all(test(packet) for test in tests) for tests in alternatives)


def _primitive(word: str, words: list[str]) -> Test:
    if word in ("not", "!"):
        inner = _primitive(words.pop(0) if words else "", words)
        return lambda packet: not inner(packet)
    if word in PROTOCOLS:
        return lambda packet: packet.protocol == word
    which = {"src": (0,), "dst": (1,)}.get(word, (0, 1))
    if word in ("src", "dst"):
        word = words.pop(0) if words else ""
    if word not in ("host", "port") and len(which) == 1:
        words.insert(0, word)
        word = "host"
    if word not in ("host", "port") or not words:
        raise Wrong
    value = words.pop(0)
    if word == "host":
        return lambda packet: any((packet.source, packet.target)[at] == value for at in which)
    return lambda packet: any(str(packet.ports[at]) == value for at in which)


def _line(process: Process, packet: Packet, every: bool) -> str:
    ends = [
        f"{address}.{port}" if port else address
        for address, port in zip((packet.source, packet.target), packet.ports, strict=True)
    ]
    way = ("eth0  Out " if packet.source == process.machine.address else "eth0  In  ") if every else ""
    return f"{process.machine.clock.now():%H:%M:%S.%f} {way}IP {ends[0]} > {ends[1]}: {packet.text}\n"


async def tcpdump(process: Process) -> int:
    """Show packets until so many have come (``-c``), or somebody interrupts it."""
    opts = await kit.options(process)
    device, wires = opts.get("i") or "eth0", [each.name for each in process.machine.wires().wires]
    if device not in (*wires, "any"):
        await process.error(f"tcpdump: {device}: No such device exists\n(No such device exists)\n")
        return 1
    try:
        fits = _test([word for arg in opts.args for word in arg.split()]) if opts.args else lambda packet: True
    except Wrong:
        await process.error("tcpdump: can't parse filter expression: syntax error\n")
        return 1
    seen: asyncio.Queue[Packet | None] = asyncio.Queue()
    process.handlers["INT"] = process.handlers["TERM"] = lambda name: seen.put_nowait(None)
    if process.machine.network is None or device == "lo":
        end: Callable[[], None] = lambda: None  # noqa: E731
    else:
        end = process.machine.network.tap(lambda packet: seen.put_nowait(packet) if fits(packet) else None)
    kind = (
        "any, link-type LINUX_SLL2 (Linux cooked v2)" if device == "any" else f"{device}, link-type EN10MB (Ethernet)"
    )
    await process.error(f"{QUIET if 'v' not in opts else 'tcpdump: '}listening on {kind}{FULL}")
    count, most = 0, int(kit.decimal(opts.get("c"), 1 << 30))
    try:
        while count < most and (packet := await seen.get()) is not None:
            count += 1
            await process.write(_line(process, packet, device == "any"))
            await process.flush()
    finally:
        end()
    plural = "packet" if count == 1 else "packets"
    await process.error(
        f"{count} {plural} captured\n{count} {plural} received by filter\n0 packets dropped by kernel\n"
    )
    return 0


TOOLS: dict[str, Tool] = {"tcpdump": tcpdump}
