"""Sockets and names: what the socket module asks of the pod's network."""

from __future__ import annotations

from kubesim.python.calls.registry import GuestError, blocking
from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.sockets import resolve as addresses

NO_NAME, AGAIN = (-2, "Name or service not known"), (-3, "Temporary failure in name resolution")


@blocking
async def resolve(process: Process, name: str) -> list[str]:
    """Return the addresses of a name."""
    try:
        return await addresses(process, name)
    except NetworkError as error:
        raise GuestError("socket.gaierror", *(AGAIN if error.kind == "again" else NO_NAME)) from error
