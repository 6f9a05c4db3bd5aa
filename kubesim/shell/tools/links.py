"""ip, ss and netstat: interfaces, routes and sockets."""

from __future__ import annotations

from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.wayout import Ear, Wire

FOREVER = "       valid_lft forever preferred_lft forever\n"
FLAGS = {
    "4", "6", "B", "M", "0", "br", "brief", "s", "stats", "statistics", "d", "details", "o", "oneline", "c", "color",
    "color=never", "j", "json", "p", "pretty", "r", "resolve", "h", "human", "t", "timestamp", "a", "all", "N", "n",
    "inet", "inet6", "iec", "V", "Version", "help", "f", "family", "color=auto", "color=always",
}  # fmt: skip
OBJECTS = ("address", "link", "route", "neighbour", "neighbor", "rule", "netns")


async def ip(process: Process) -> int:
    """Show addresses, interfaces, routes, neighbours and rules."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    flags = "".join(word.lstrip("-") for word in process.argv[1:] if word.startswith("-"))
    wrong = [word for word in process.argv[1:] if word.startswith("-") and word.lstrip("-") not in FLAGS]
    if wrong:
        await process.error(f'Option "{wrong[0]}" is unknown, try "ip -help".\n')
        return 255
    brief = "br" in flags
    kind = next((each for each in OBJECTS if words and each.startswith(words[0])), "" if words else "address")
    rest = words[1:]
    if rest[:1] and rest[0] in ("add", "del", "set", "replace", "flush", "change"):
        return await _change(process, kind)
    rest = [word for word in rest if word not in ("show", "list", "ls", "s", "sh", "lst", "dev", "up")]
    wires = process.machine.wires()
    chosen = [each for each in wires.wires if not rest or each.name == rest[0]]
    if kind in ("address", "link") and not chosen:
        await process.error(f'Device "{rest[0]}" does not exist.\n')
        return 1
    if kind == "address":
        await process.write("".join(map(_brief_address if brief else _address, chosen)))
    elif kind == "link":
        await process.write("".join(map(_brief_link if brief else _link, chosen)))
    elif kind == "route":
        await _routes(process, rest)
    elif kind in ("neighbour", "neighbor"):
        await process.write(
            f"{wires.gateway} dev eth0 lladdr 42:01:0a:80:00:01 REACHABLE \n" if wires.gateway else ""
        )
    elif kind == "rule":
        await process.write(kit.told("ip_rule"))
    elif not kind:
        await process.error(f'Object "{words[0]}" is unknown, try "ip help".\n')
        return 1
    return 0


async def _change(process: Process, kind: str) -> int:
    if process.machine.devices is not None and process.machine.devices.privileged:
        return 0
    await process.error("RTNETLINK answers: Operation not permitted\n")
    return 2


async def _routes(process: Process, rest: list[str]) -> None:
    wires = process.machine.wires()
    if rest[:1] == ["get"] and len(rest) > 1:
        await process.write(
            f"{rest[1]} via {wires.gateway} dev eth0 src {process.machine.address} uid 0 \n    cache \n"
        )
        return
    found = [each for each in wires.routes if not rest or rest[0] in each.split()]
    await process.write("".join(f"{each}\n" for each in found))


def _link(wire: Wire) -> str:
    queue = "mq" if wire.name == "eth0" and not wire.peer else "noqueue"
    kind = "loopback" if wire.name == "lo" else "ether"
    ends = "00:00:00:00:00:00" if wire.name == "lo" else "ff:ff:ff:ff:ff:ff"
    return (
        f"{wire.number}: {wire.whole}: <{wire.flags}> mtu {wire.mtu} qdisc {queue} state {wire.state} "
        f"group default qlen 1000\n    link/{kind} {wire.mac} brd {ends}{wire.space}\n"
    )


def _address(wire: Wire) -> str:
    text = _link(wire)
    for each in wire.addresses:
        head, _, bits = each.partition("/")
        broad = f" brd {head.rpartition('.')[0]}.255" if bits == "24" else ""
        text += f"    inet {each}{broad} scope {'host' if wire.name == 'lo' else 'global'} {wire.name}\n{FOREVER}"
    return text


def _brief_address(wire: Wire) -> str:
    return f"{wire.whole:<16} {wire.state:<14} {' '.join(wire.addresses)} \n"


def _brief_link(wire: Wire) -> str:
    return f"{wire.whole:<16} {wire.state:<14} {wire.mac} <{wire.flags}> \n"


async def sockets(process: Process) -> int:
    """``ss`` and ``netstat``: what listens, and (-p) whose it is; connections come and go too fast to be shown."""
    flags = "".join(word.lstrip("-") for word in process.argv[1:] if word.startswith("-"))
    ears = [each for each in process.machine.wires().ears if _asked(each, flags)]
    ears = ears if any(flag in flags for flag in "la") else []
    if process.name == "netstat":
        await _netstat(process, ears, flags)
        return 0
    wide = max([18, *(len(each.address) + 1 for each in ears)])
    head = "Netid " if "t" not in flags and "u" not in flags else ""
    title = f"{head}State  Recv-Q Send-Q {'Local Address':>{wide}}:Port  {'Peer Address':>16}:Port Process"
    await process.write(title.rstrip() + "\n")
    for each in ears:
        kind = f"{each.protocol:<5} " if head else ""
        state = "UNCONN" if each.protocol == "udp" else "LISTEN"
        peer = "*" if each.address == "*" else "0.0.0.0"  # noqa: S104 - an address of the simulated node
        owner = (
            f'users:(("{each.name[:15]}",pid={each.pid},fd={3 + each.port % 19}))'
            if each.pid and "p" in flags
            else ""
        )
        queue = 0 if each.protocol == "udp" else 4096
        line = f"{kind}{state} {0:<6} {queue:<6} {each.address:>{wide}}:{each.port:<5} {peer:>16}:*    {owner}"
        await process.write(line.rstrip() + "\n")
    return 0


def _asked(ear: Ear, flags: str) -> bool:
    return ("t" not in flags and "u" not in flags) or ear.protocol[0] in flags


async def _netstat(process: Process, ears: list[Ear], flags: str) -> None:
    which = "only servers" if "l" in flags else "servers and established" if "a" in flags else "w/o servers"
    owner = "       PID/Program name    " if "p" in flags else ""
    await process.write(kit.told("netstat", which=which, owner=owner))
    for each in ears:
        kind = each.protocol + ("6" if each.address == "*" else "")
        place = f"{'::' if each.address == '*' else each.address}:{each.port}"
        peer = ":::*" if each.address == "*" else "0.0.0.0:*"
        state = "" if each.protocol == "udp" else "LISTEN"
        whose = f"{f'{each.pid}/{each.name[:12]}' if each.pid else '-':<20}" if "p" in flags else ""
        await process.write(f"{kind:<5} {0:>6} {0:>6} {place:<23} {peer:<23} {state:<11} {whose}".rstrip() + "\n")


TOOLS: dict[str, Tool] = {"ip": ip, "ss": sockets, "netstat": sockets}
