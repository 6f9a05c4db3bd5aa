"""``manage.py guide``: a practice cluster on which the user guide of GPU fault injection works word for word.

It is an installation of its own in a temporary folder: no interview of this machine is touched, and nothing stays.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from faults import clock, practice, reconciler, selectors
from faults.errors import ClusterError, FaultError
from faults.guide import practice_cluster
from faults.kube.local_port import LocalPort

NAME = "guide"
UNSET = (
    "DATABASE_URL",
    "REDIS_URL",
    "RUN_DIR",
    "KUBESIM_URL",
    "PUBLIC_HOST",
    "PUBLIC_PORT",
    "PUBLIC_HTTPS",
    "SECRET_KEY",
)
LOOPBACK = "127.0.0.1"
START_S, STOP_S, TICK_S = 60.0, 10.0, 0.5


class Command(BaseCommand):
    """Runs in the foreground until Ctrl-C or SIGTERM."""

    help = "Start a practice cluster for the user guide of GPU fault injection, with its API at localhost."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--kubeconfig", type=Path, required=True, metavar="FILE", help="written when all is ready"
        )
        parser.add_argument("--port", type=int, default=8080, help="of the fault injection API, on localhost (8080)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Begin anew with the settings of guide mode, then serve until a signal."""
        if settings.GUIDE_CLUSTER != NAME:
            _require_free(options["port"])
            _require_ours(options["kubeconfig"])
            _begin_in_guide_mode(options)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, settings.DATA_DIR, ignore_errors=True)
            try:
                self._serve(stack, stop, options["kubeconfig"], options["port"])
            except (ClusterError, practice_cluster.NotReady, OSError) as exc:
                if not stop.is_set():
                    raise CommandError(str(exc)) from exc

    def _serve(self, stack: ExitStack, stop: threading.Event, kubeconfig: Path, port: int) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        host = stack.enter_context(_host())
        call_command("migrate", verbosity=0)
        api = stack.enter_context(_api())
        _await_host(host, stop)
        cluster, text = practice_cluster.make_cluster(f"{LOOPBACK}:{api}")
        stack.enter_context(_reconciling(stop))
        practice_cluster.await_pods(cluster, stop.wait)
        namespace, service, remote = practice_cluster.API
        forwarded = LocalPort(selectors.kube_for(cluster), namespace, service, remote, port)
        stack.callback(forwarded.close)
        _write_private(kubeconfig, text)
        stack.callback(kubeconfig.unlink, missing_ok=True)
        self.stdout.write(f"Ready: export KUBECONFIG={kubeconfig.resolve()}   (Ctrl-C ends the cluster)")
        self.stdout.write(f"The fault injection API is at http://localhost:{forwarded.port}, the SDK in faults/sdk.")
        self.stdout.flush()
        while not stop.wait(TICK_S):
            if host.poll() is not None:
                raise practice_cluster.NotReady("The practice cluster has ended; its lines above say why.")


def _begin_in_guide_mode(options: dict[str, Any]) -> None:
    """Become the same command with settings of its own; none of the installation's are taken over."""
    folder = tempfile.mkdtemp(prefix=settings.GUIDE_FOLDER)
    own = [f"DATA_DIR={folder}", f"GUIDE_CLUSTER={NAME}", f"KUBESIM_PORT={_free_port()}", f"BIND={LOOPBACK}"]
    unset = [part for name in UNSET for part in ("-u", name)]
    python = [sys.executable, "-W", "ignore", str(settings.BASE_DIR / "manage.py")]
    mine = ["guide", "--kubeconfig", str(options["kubeconfig"].absolute()), "--port", str(options["port"])]
    env = shutil.which("env") or "/usr/bin/env"
    os.execv(env, [env, *unset, *own, *python, *mine])  # noqa: S606


@contextmanager
def _host() -> Iterator[subprocess.Popen[bytes]]:
    """Run ``kubesim host`` in guide mode, which no host of interviews is in."""
    command = [sys.executable, "-W", "ignore", "-m", "kubesim", "host", "--guide", "--bind", LOOPBACK]
    command += ["--port", str(settings.KUBESIM_PORT), "--data", str(settings.KUBESIM_DIR)]
    process = subprocess.Popen(command, cwd=settings.BASE_DIR, start_new_session=True)  # noqa: S603
    try:
        with _ended_with_us(process):
            yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _ended_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process also where we are killed: a guard reads from a pipe, which ends with us."""
    command = ["/bin/sh", "-c", 'cat; kill -TERM "$0"', str(process.pid)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
    try:
        yield
    finally:
        guard.kill()
        guard.communicate()


def _await_host(host: subprocess.Popen[bytes], stop: threading.Event) -> None:
    end = clock.now().timestamp() + START_S
    while True:
        with suppress(ClusterError):
            practice.health()
            return
        if host.poll() is not None or stop.wait(0.1) or clock.now().timestamp() > end:
            raise practice_cluster.NotReady("The practice cluster's host did not start.")


@contextmanager
def _api() -> Iterator[int]:
    """Serve the API on a port of loopback, to which the cluster's pod leads; yields it."""
    config = uvicorn.Config(
        "interview_site.guide_asgi:application", host=LOOPBACK, port=0, log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    with socket.create_server((LOOPBACK, 0)) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="api", daemon=True)
        thread.start()
        try:
            yield int(sock.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(STOP_S)


@contextmanager
def _reconciling(stop: threading.Event) -> Iterator[None]:
    """End faults whose time has come, and go on with what was left half done."""

    def work() -> None:
        while not stop.wait(TICK_S):
            with suppress(ClusterError, FaultError):
                reconciler.tick(clock.now())
        connections.close_all()

    thread = threading.Thread(target=work, name="reconciler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, at once or not at all: whoever waits for it finds it whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def _require_free(port: int) -> None:
    """Say at once that the port is taken, before a cluster is made."""
    try:
        socket.create_server((LOOPBACK, port)).close()
    except (OSError, OverflowError) as exc:
        raise CommandError(f"Port {port} cannot be used ({exc}). Choose another one with --port.") from exc


def _require_ours(kubeconfig: Path) -> None:
    """Refuse a file of somebody's own: it would be overwritten, and removed at the end."""
    if kubeconfig.is_dir():
        raise CommandError(f"{kubeconfig} is a folder. Name a file with --kubeconfig.")
    try:
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        known = yaml.safe_load(kubeconfig.read_text(encoding="utf-8")) if kubeconfig.exists() else None
        is_ours = known is None or [row["name"] for row in known["contexts"]] == [NAME]
    except OSError as exc:
        raise CommandError(f"{kubeconfig} cannot be written ({exc}). Name another file with --kubeconfig.") from exc
    except (yaml.YAMLError, ValueError, LookupError, TypeError):
        is_ours = False
    if not is_ours:
        why = "it is not of an earlier guide, and would be removed at the end"
        raise CommandError(f"{kubeconfig} exists: {why}. Name another file with --kubeconfig.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
