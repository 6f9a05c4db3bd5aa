"""Names of hosts and what they stand for: nslookup, getent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubesim.shell.errors import NetworkError
from kubesim.shell.files import File
from kubesim.shell.lookup import Answer, Record, search
from kubesim.shell.machine import Process, Tool
from kubesim.shell.sockets import ADDRESS, WAIT_S, hosts, network, resolve


def reverse(address: str) -> str:
    """Return the name under which an address is looked up."""
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


async def patiently(process: Process, ask: Callable[[], Awaitable[Answer]], tries: int) -> Answer | None:
    """Return an answer, or None after as many tries: what each of them met with is said."""
    try:
        return await ask()
    except NetworkError as error:
        why, server = error.why or error.kind, _server(process)
    for _ in range(tries):
        if why == "timed out":
            await process.sleep(WAIT_S)
        await process.write(f";; communications error to {server}#53: {why}\n")
    return None


def _server(process: Process) -> str:
    found = process.machine.network
    return found.config.servers[0] if found is not None else "127.0.0.1"


DATABASES = ("ahosts", "ahostsv4", "group", "hosts", "passwd")
SETTINGS = frozenset({"type", "querytype", "query", "q", "t", "debug", "timeout", "retry"})
"""Databases of getent, and settings of nslookup."""


async def nslookup(process: Process) -> int:
    """Ask the name server."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    settings = [word.lstrip("-").partition("=") for word in process.argv[1:] if word.startswith("-")]
    if wrong := [key for key, equals, _ in settings if key not in SETTINGS]:
        await process.error(f"*** Invalid option: {wrong[0]}\n")
        return 1
    if not words:
        return 1
    name, *servers = words
    server = (await resolve(process, servers[0]))[0] if servers else ""
    kind = next((value.upper() for key, _, value in settings if key in ("type", "querytype", "query", "q", "t")), "")
    return await _bind(process, name, kind, server)


async def _bind(process: Process, name: str, kind: str, server: str) -> int:
    """Look up as the name server's own tools do."""
    turned = ADDRESS.fullmatch(name) is not None
    wanted = reverse(name) + "." if turned else name

    async def ask() -> Answer:
        way = network(process)
        return await search(
            wanted, way.config, lambda n, k: way.ask(n, k, server), kind or ("PTR" if turned else "A")
        )

    answer = missing = None
    try:
        answer = await _first(process, wanted, ask)
    except _Missing as error:
        missing = error
    if answer is None and missing is None:
        await process.write(";; no servers could be reached\n\n")
        return 1
    if not turned:
        used = server or _server(process)
        await process.write(f"Server:\t\t{used}\nAddress:\t{used}#53\n\n")
    if answer is None:
        text = "*** Can't find {}: No answer" if missing and missing.exists else "** server can't find {}: NXDOMAIN"
        await process.write(text.format(wanted.rstrip(".")) + "\n\n")
        return 0 if missing and missing.exists else 1
    await process.write("".join(_row(record) for record in answer.records) + "\n")
    return 0


class _Missing(Exception):
    """No records: ``exists`` says whether there is the name at all."""

    def __init__(self, *, exists: bool) -> None:
        super().__init__()
        self.exists = exists


async def _first(process: Process, name: str, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
    """Return the first answer with records, or None where no server can be reached. Raises ``_Missing``."""

    async def found() -> Answer:
        try:
            return await ask()
        except NetworkError as error:
            if error.kind != "nxdomain":
                raise
            way = network(process)
            raise _Missing(exists=(await way.ask(way.config.candidates(name)[-1], "A")).exists) from error

    return await patiently(process, found, 3)


def _row(record: Record) -> str:
    match record.kind:
        case "A" | "AAAA":
            return f"Name:\t{record.name}\nAddress: {record.value}\n"
        case "CNAME":
            return f"{record.name}\tcanonical name = {record.value}.\n"
        case "PTR":
            return f"{record.name}\tname = {record.value}.\n"
        case "SRV":
            return f"{record.name}\tservice = {record.value}.\n"
    return f"{record.name}\ttext = {record.value}\n"


async def getent(process: Process) -> int:
    """Look up in the system's databases."""
    table = process.argv[1] if len(process.argv) > 1 else ""
    if table not in DATABASES:
        why = f"Unknown database: {table}" if table and table[0] != "-" else "wrong number of arguments"
        await process.error(f"{why}\nTry `getent --help' or `getent --usage' for more information.\n")
        return 1
    if len(process.argv) < 3:
        return 1
    key = process.argv[2]
    if table in ("passwd", "group"):
        node = process.view.find(f"/etc/{table}")
        rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
        found = [row for row in rows if key in row.split(":")[::2][:2]]
        await process.write("".join(row + "\n" for row in found))
        return 0 if found else 2
    try:
        addresses, name = await resolve(process, key), await _full(process, key)
    except NetworkError:
        return 2
    for address in addresses:
        if table == "hosts":
            await process.write(f"{address:<15} {name}\n")
        else:
            await process.write(f"{address:<15} STREAM {name}\n{address:<15} DGRAM  \n{address:<15} RAW    \n")
    return 0


async def _full(process: Process, name: str) -> str:
    """Return the name that a name server knows a host by; one of /etc/hosts or an address stays as it is."""
    if ADDRESS.fullmatch(name) or name in hosts(process):
        return name
    way = network(process)
    answer = await search(name, way.config, way.ask)
    return answer.records[-1].name


TOOLS: dict[str, Tool] = {"nslookup": nslookup, "getent": getent}
