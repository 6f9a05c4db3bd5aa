"""What must hold before anything starts. Each failure is one sentence and the command that mends it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from interview_site import redis_server

UNIX_SOCKET_LIMIT = 104  # bytes of sun_path on macOS, the smallest of the systems we run on


class NotReady(Exception):
    """Something is missing; the message names it and the command that mends it."""


def check() -> list[str]:
    """Return every reason why the processes could not start, in words."""
    return [problem for find in (_folders, _ports, _redis) for problem in find()]


def _folders() -> Iterator[str]:
    for name, folder in (("DATA_DIR", settings.DATA_DIR), ("RUN_DIR", settings.RUN_DIR)):
        if reason := _unwritable(folder):
            yield f"{name} {folder} cannot be used: {reason}. Run: export {name}=$HOME/faultline-{name[:4].lower()}"


def _unwritable(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as exc:
        return exc.strerror or type(exc).__name__
    if folder == settings.RUN_DIR and folder.stat().st_uid != os.getuid():
        return "it belongs to another user"
    return ""


def _ports() -> Iterator[str]:
    for name, port in (("PORT", settings.PORT), ("KUBESIM_PORT", settings.KUBESIM_PORT)):
        if reason := _unbindable(settings.BIND, port):
            yield f"{settings.BIND}:{port} is not free ({reason}). Run: export {name}={port + 1}"


def _unbindable(address: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as exc:
            return exc.strerror or type(exc).__name__
    return ""


def _redis() -> Iterator[str]:
    if not settings.OWN_REDIS:
        return
    if redis_server.find() is None:
        yield "no Redis was found. Run: brew install redis (macOS) or: sudo apt install redis-server (Debian, Ubuntu)"
    path = settings.RUN_DIR / "redis.sock"
    if len(os.fsencode(path)) >= UNIX_SOCKET_LIMIT:
        yield f"the path {path} is too long for a socket. Run: export RUN_DIR=/tmp/faultline-run"
    elif path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        yield f"{path} is in the way and is no socket. Run: rm {path}"
