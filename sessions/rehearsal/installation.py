"""Finds out whether an installation runs here, and starts a temporary one where none does."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import django_rq
from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError
from rq import Worker

from faults import practice
from faults.errors import ClusterError
from faults.models import Lease
from sessions import clock

STOP_SECONDS = 20.0
# Set for the installation that runs here; the temporary one has its own.
_NOT_INHERITED = ("REDIS_URL", "DATABASE_URL", "RUN_DIR", "KUBESIM_URL", "PUBLIC_PORT")


def missing() -> list[str]:
    """Return what does not run here, in words; empty where a rehearsal can begin."""
    parts = {"a worker": _has_worker, "the observer": _has_observer, "practice clusters": _has_clusters}
    return [name for name, answers in parts.items() if not answers()]


def _has_worker() -> bool:
    try:
        return bool(Worker.count(queue=django_rq.get_queue("default")))
    except (RedisError, OSError):
        return False


def _has_observer() -> bool:
    try:
        return Lease.objects.filter(name="observer", until__gt=clock.now()).exists()
    except DatabaseError:
        return False  # not even migrated


def _has_clusters() -> bool:
    try:
        practice.health()
    except ClusterError:
        return False
    return True


@dataclass(frozen=True)
class Temporary:
    """An installation in a folder that goes away, on ports that were free."""

    folder: Path
    supervisor: subprocess.Popen[bytes]
    environment: tuple[str, ...]

    def manage(self, *args: str) -> subprocess.Popen[bytes]:
        """Start a management command inside this installation, with our output."""
        return subprocess.Popen(manage_command(self.environment, args))  # noqa: S603

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines that the supervisor printed."""
        text = (self.folder / "log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])


@contextmanager
def temporary() -> Iterator[Temporary]:
    """Start an installation of its own, and leave nothing of it behind."""
    folder = Path(tempfile.mkdtemp(prefix="faultline-"))
    environment = own_environment(folder)
    with (folder / "log").open("wb") as log:
        supervisor = subprocess.Popen(  # noqa: S603
            manage_command(environment, ["up"]), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield Temporary(folder, supervisor, environment)
    finally:
        stop(supervisor)
        shutil.rmtree(folder, ignore_errors=True)


def own_environment(folder: Path) -> tuple[str, ...]:
    """Return the variables of an installation in this folder, on ports that are free."""
    return (f"DATA_DIR={folder}", *(f"{name}={_free_port()}" for name in ("PORT", "KUBESIM_PORT")))


def manage_command(environment: Sequence[str], args: Sequence[str]) -> list[str]:
    """Return the command line that runs manage.py with these variables added to our own."""
    unset = [part for name in _NOT_INHERITED for part in ("-u", name)]
    python = [sys.executable, "-W", "ignore", str(settings.BASE_DIR / "manage.py")]
    return [shutil.which("env") or "/usr/bin/env", *unset, *environment, *python, *args]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started, politely first."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((settings.BIND if ":" not in settings.BIND else "127.0.0.1", 0))
        return int(probe.getsockname()[1])
