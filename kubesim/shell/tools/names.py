"""Names of hosts and what they stand for: nslookup, dig, host, getent."""

from __future__ import annotations

import re

from kubesim.shell.errors import NetworkError
from kubesim.shell.files import File
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
RESOLVER = "10.96.0.10"


def hosts(process: Process) -> dict[str, str]:
    """Return the names of /etc/hosts with their addresses."""
    node = process.view.find("/etc/hosts")
    rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
    fields = [row.split("#")[0].split() for row in rows]
    return {name: row[0] for row in reversed(fields) if len(row) > 1 for name in row[1:] if ":" not in row[0]}


async def resolve(process: Process, name: str) -> list[str]:
    """Return the addresses of a name; raises NetworkError."""
    if ADDRESS.fullmatch(name):
        return [name]
    known = hosts(process)
    if name in known:
        return [known[name]]
    if process.machine.network is None:
        raise NetworkError("nxdomain")
    return await process.machine.network.resolve(name)


async def nslookup(process: Process) -> int:
    """Ask the name server."""
    opts = await kit.options(process, "t:q:", {"type=": "t", "query=": "t"})
    if not opts.args:
        return 1
    name = opts.args[0]
    await process.write(f"Server:\t\t{RESOLVER}\nAddress:\t{RESOLVER}{':53' if process.busybox else '#53'}\n\n")
    try:
        addresses = await resolve(process, name)
    except NetworkError as error:
        if error.kind == "timeout":
            await process.write(";; connection timed out; no servers could be reached\n\n")
        elif process.busybox:
            await process.write(f"** server can't find {name}: NXDOMAIN\n\n")
        else:
            await process.write(f"** server can't find {name}: NXDOMAIN\n\n")
        return 1
    for address in addresses:
        await process.write(f"Name:\t{name}\nAddress: {address}\n")
    await process.write("\n")
    return 0


async def dig(process: Process) -> int:
    """Ask the name server in detail."""
    words = [
        word
        for word in process.argv[1:]
        if not word.startswith(("+", "@", "-")) and word not in ("A", "AAAA", "SRV", "IN", "ANY")
    ]
    name = words[0] if words else "."
    short = "+short" in process.argv
    try:
        addresses = await resolve(process, name)
        state = "NOERROR"
    except NetworkError as error:
        if error.kind == "timeout":
            await process.write(";; communications error: timed out\n;; no servers could be reached\n")
            return 9
        addresses, state = [], "NXDOMAIN"
    if short:
        await process.write("".join(address + "\n" for address in addresses))
        return 0
    full = name.rstrip(".") + "."
    await process.write(
        f"\n; <<>> DiG 9.18.28 <<>> {' '.join(process.argv[1:])}\n;; global options: +cmd\n;; Got answer:\n"
        f";; ->>HEADER<<- opcode: QUERY, status: {state}, id: 30211\n"
        f";; flags: qr aa rd; QUERY: 1, ANSWER: {len(addresses)}, AUTHORITY: 0, ADDITIONAL: 1\n\n"
        f";; QUESTION SECTION:\n;{full}\t\t\tIN\tA\n"
    )
    if addresses:
        await process.write("\n;; ANSWER SECTION:\n" + "".join(f"{full}\t30\tIN\tA\t{each}\n" for each in addresses))
    await process.write(f"\n;; Query time: 0 msec\n;; SERVER: {RESOLVER}#53({RESOLVER}) (UDP)\n\n")
    return 0


async def host(process: Process) -> int:
    """Look a name up."""
    name = process.argv[-1]
    try:
        for address in await resolve(process, name):
            await process.write(f"{name} has address {address}\n")
    except NetworkError:
        await process.write(f"Host {name} not found: 3(NXDOMAIN)\n")
        return 1
    return 0


async def getent(process: Process) -> int:
    """Look up in the system's databases."""
    if len(process.argv) < 3:
        return 1
    table, key = process.argv[1], process.argv[2]
    if table in ("passwd", "group"):
        node = process.view.find(f"/etc/{table}")
        rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
        found = [row for row in rows if key in row.split(":")[::2][:2]]
        await process.write("".join(row + "\n" for row in found))
        return 0 if found else 2
    try:
        for address in await resolve(process, key):
            await process.write(f"{address:<15} {key}\n" if table == "hosts" else f"{address:<15} STREAM {key}\n")
    except NetworkError:
        return 2
    return 0


TOOLS: dict[str, Tool] = {"nslookup": nslookup, "dig": dig, "host": host, "getent": getent}
