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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from faults import clock, practice, reconciler, selectors
from faults.errors import ClusterError, FaultError
from faults.guide import joined_cluster, practice_cluster
from faults.kube.client import Kube
from faults.kube.local_port import LocalPort
from faults.models import Cluster
from faults.temporary_tables import create_tables

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
START_S, STOP_S, TICK_S = 60.0, 30.0, 0.5


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
        on = "use the control plane of this kubeconfig, which has no nodes: simulated ones join it"
        parser.add_argument("--on", type=Path, metavar="FILE", help=on)
        parser.add_argument("--context", default="", metavar="NAME", help="context for --on (the file's current one)")

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
                self._serve(stack, stop, options)
            except (ClusterError, practice_cluster.NotReady, OSError) as exc:
                if not stop.is_set():
                    raise CommandError(str(exc)) from exc

    def _serve(self, stack: ExitStack, stop: threading.Event, options: dict[str, Any]) -> None:
        settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
        start = _joined if options["on"] else _practice
        process, cluster, text = start(stack, stop, options)
        stack.enter_context(_reconciling(stop))
        practice_cluster.await_pods(cluster, _stopped(stop, process))
        namespace, service, remote = practice_cluster.API
        forwarded = LocalPort(selectors.kube_for(cluster), namespace, service, remote, options["port"])
        stack.callback(forwarded.close)
        kubeconfig = options["kubeconfig"]
        _write_private(kubeconfig, text)
        stack.callback(kubeconfig.unlink, missing_ok=True)
        end = "takes everything out of it" if options["on"] else "ends the cluster"
        self.stdout.write(f"Ready: export KUBECONFIG={kubeconfig.resolve()}   (Ctrl-C {end})")
        self.stdout.write(f"The fault injection API is at http://localhost:{forwarded.port}, the SDK in faults/sdk.")
        self.stdout.flush()
        while not stop.wait(TICK_S):
            if process.poll() is not None:
                raise practice_cluster.NotReady("The simulated nodes have ended; kubesim's lines above say why.")


def _begin_in_guide_mode(options: dict[str, Any]) -> None:
    """Become the same command with settings of its own; none of the installation's are taken over."""
    folder = tempfile.mkdtemp(prefix=settings.GUIDE_FOLDER)
    own = [f"DATA_DIR={folder}", f"GUIDE_CLUSTER={NAME}", f"KUBESIM_PORT={_free_port()}", f"BIND={LOOPBACK}"]
    unset = [part for name in UNSET for part in ("-u", name)]
    python = [sys.executable, "-W", "ignore", str(settings.BASE_DIR / "manage.py")]
    mine = ["guide", "--kubeconfig", str(options["kubeconfig"].absolute()), "--port", str(options["port"])]
    mine += ["--on", str(options["on"].absolute()), "--context", options["context"]] if options["on"] else []
    env = shutil.which("env") or "/usr/bin/env"
    os.execv(env, [env, *unset, *own, *python, *mine])  # noqa: S606


Started = tuple[subprocess.Popen[bytes], Cluster, str]
"""The process that simulates, the cluster, and its kubeconfig."""


def _practice(stack: ExitStack, stop: threading.Event, options: dict[str, Any]) -> Started:
    """Start ``kubesim host`` in guide mode, which no host of interviews is in, and make a cluster there."""
    words = ["host", "--guide", "--bind", LOOPBACK, "--port", str(settings.KUBESIM_PORT)]
    host = stack.enter_context(_kubesim([*words, "--data", str(settings.KUBESIM_DIR)]))
    create_tables()
    api = stack.enter_context(_api())
    _await_host(host, stop)
    return host, *practice_cluster.make_cluster(f"{LOOPBACK}:{api}")


def _joined(stack: ExitStack, stop: threading.Event, options: dict[str, Any]) -> Started:
    """Let simulated nodes join a control plane, and create there what the guide needs."""
    create_tables()
    text = joined_cluster.read_kubeconfig(options["on"], options["context"])
    cluster, kube = joined_cluster.make_cluster(text)
    stack.callback(kube.close)
    joined_cluster.await_earlier(kube, stop.wait)
    api, file = stack.enter_context(_api()), settings.DATA_DIR / "nodes.yaml"
    joined_cluster.write_nodes(file)
    words = ["nodes", "--kubeconfig", str(options["on"]), "--context", options["context"], "--untainted"]
    words += ["--group", joined_cluster.GROUP, "--cluster-file", str(file), "--guide", str(api)]
    nodes = stack.enter_context(_kubesim(words))
    stack.callback(_leave, cluster, kube)
    joined_cluster.install(kube, _stopped(stop, nodes))
    return nodes, cluster, text


def _stopped(stop: threading.Event, process: subprocess.Popen[bytes]) -> Callable[[float], bool]:
    """Return what waits for some seconds, and tells whether a signal came or the process ended."""
    return lambda seconds: stop.wait(seconds) or process.poll() is not None


def _leave(cluster: Cluster, kube: Kube) -> None:
    """Take everything of the guide out of a control plane again, while its nodes still end their pods."""
    joined_cluster.recover_faults(cluster)
    try:
        joined_cluster.remove(kube)
    except (ClusterError, practice_cluster.NotReady) as exc:
        advice = "Start the guide there once more: it removes what is left, at its start or at its end."
        raise CommandError(f"Not everything was removed: {exc} {advice}") from exc


@contextmanager
def _kubesim(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of kubesim."""
    command = [sys.executable, "-W", "ignore", "-m", "kubesim", *words]
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
