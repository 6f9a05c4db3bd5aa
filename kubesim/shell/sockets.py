"""Connections of processes: the addresses of names as the C library finds them, and bash's /dev/tcp."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import File
from kubesim.shell.handles import Handle, Outside, Reader, Writer
from kubesim.shell.machine import Process
from kubesim.shell.wayout import Network

ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
WAIT_S = 5.0
"""How long a name server is waited for."""
SYN_S = 130.0
"""How long the kernel tries to connect."""
DEVICE = re.compile(r"/dev/(tcp|udp)/([^/]+)/([^/]+)")
CODES = {"refused": "ECONNREFUSED", "timeout": "ETIMEDOUT", "unreachable": "EHOSTUNREACH", "reset": "ECONNRESET"}
UNKNOWN = {"nxdomain": "Name or service not known", "again": "Temporary failure in name resolution"}


def hosts(process: Process) -> dict[str, str]:
    """Return the names of /etc/hosts with their addresses."""
    node = process.view.find("/etc/hosts")
    rows = bytes(node.content()).decode("utf-8", "replace").splitlines() if isinstance(node, File) else []
    fields = [row.split("#")[0].split() for row in rows]
    return {name: row[0] for row in reversed(fields) if len(row) > 1 for name in row[1:] if ":" not in row[0]}


def network(process: Process) -> Network:
    """Return the way out of a container; raises NetworkError where there is none."""
    if process.machine.network is None:
        raise NetworkError("again", "connection refused")
    return process.machine.network


async def resolve(process: Process, name: str) -> list[str]:
    """Return the addresses of a name; raises NetworkError."""
    if ADDRESS.fullmatch(name):
        return [name]
    known = hosts(process)
    if name in known:
        return [known[name]]
    try:
        return await network(process).resolve(name)
    except NetworkError as error:
        if error.kind == "again" and error.why == "timed out":
            await process.sleep(4 * WAIT_S)  # the C library asks twice, for two kinds of addresses
        raise


class Connection(Outside):
    """A connection that a shell holds open as a descriptor."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        super().__init__(reader, writer)
        self._ends = reader, writer

    def close(self) -> None:
        """Close this end."""
        for end in self._ends:
            close = getattr(end, "close", None)
            if close is not None:
                close()


async def opened(
    process: Process, path: str, shell: str, complain: Callable[[str], Awaitable[None]]
) -> Handle | None:
    """Open what bash, called ``shell``, takes for a connection, ``/dev/tcp/HOST/PORT``; None for any other path.

    Raises FileError after bash's first line about what failed.
    """
    found = DEVICE.fullmatch(path)
    if found is None:
        return None
    sort, name, port = found.groups()
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        await complain(f"{port}: Servname not supported for ai_socktype")
        raise FileError("EINVAL", path)
    try:
        address = (await resolve(process, name))[0]
    except NetworkError as error:
        await complain(f"{name}: {UNKNOWN.get(error.kind, UNKNOWN['again'])}")
        raise FileError("EINVAL", path) from error
    if sort == "udp":
        return Outside()  # nothing is known of a datagram that is sent
    try:
        return Connection(*await network(process).connect(address, int(port)))
    except NetworkError as error:
        failure = FileError(CODES.get(error.kind, "ECONNREFUSED"), path)
        if error.kind == "timeout":
            await process.sleep(SYN_S)
        await process.error(f"{shell}: connect: {failure.text}\n")  # of this alone bash does not say the line
        raise failure from error
