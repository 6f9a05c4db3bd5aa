"""The clusters on which rounds are played, and the programs that keep them up."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture.api_proxy import ApiProxy
from torture.installation import ROOT
from torture.ports import free_port

PATIENCE_S = float(os.environ.get("TORTURE_PATIENCE", "180"))
TESTCLUSTER = ROOT / "deploy" / "testcluster" / "testcluster.py"
BINARIES = Path(os.environ.get("TESTCLUSTER_BIN") or Path.home() / ".cache/faultline/testcluster-bin")


class Program:
    """A program that can be killed and started again."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self.start()

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, politely first."""
        from conftest import stop

        stop(self._process)


@dataclass
class Place:
    """A cluster that rounds are played on; None of the rest where each session has a practice cluster of its own.

    ``nodes``: the program of the simulated nodes; on a lent cluster also that of the control plane.
    """

    name: str
    kubeconfig: Path | None = None
    proxy: ApiProxy | None = None
    nodes: Program | None = None


def until(done: Any, seconds: float = PATIENCE_S) -> Any:
    """Return what ``done`` returns once it is true; None after so many seconds. A locked database is waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with _patience():
            if result := done():
                return result
        time.sleep(0.1)
    return None


@contextmanager
def _patience() -> Iterator[None]:
    """Let a database that does not answer pass, with a new connection for the next try."""
    from django.db import OperationalError, connection

    try:
        yield
    except OperationalError:
        connection.close()


@contextmanager
def places(folder: Path, rng: random.Random, names: Sequence[str]) -> Iterator[list[Place]]:
    """Yield the places by name: practice, lent (a practice cluster behind the proxy), real (a control plane)."""
    with ExitStack() as stack:
        found = [Place("practice")] if "practice" in names else []
        if "lent" in names:
            found.append(stack.enter_context(_lent(folder / "lent", rng)))
        if "real" in names:
            found.append(stack.enter_context(_real(folder / "real", rng)))
        yield found


@contextmanager
def _lent(folder: Path, rng: random.Random) -> Iterator[Place]:
    folder.mkdir(parents=True)
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "kubesim", "serve", "--data", str(folder / "data"), "--port", str(free_port())]
    command += ["--nodes", "3", "--gpus", "8", "--kubeconfig", str(kubeconfig)]
    nodes = Program(command, folder / "log")
    try:
        assert until(lambda: kubeconfig.exists() and _answers(kubeconfig), 60), (folder / "log").read_text()
        with ApiProxy(_access(kubeconfig), folder, rng) as proxy:
            yield Place("lent", kubeconfig, proxy, nodes)
    finally:
        nodes.stop()


@contextmanager
def _real(folder: Path, rng: random.Random) -> Iterator[Place]:
    folder.mkdir(parents=True)
    made = subprocess.run(
        [sys.executable, str(TESTCLUSTER), "up", "--folder", str(folder / "cluster")],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TESTCLUSTER_BIN": str(BINARIES)},
    )
    kubeconfig = Path(made.stdout.strip())
    command = [sys.executable, "-m", "kubesim", "nodes", "--kubeconfig", str(kubeconfig), "--nodes", "3"]
    nodes = Program([*command, "--gpus", "8", "--untainted"], folder / "log")
    try:
        assert until(lambda: _ready_nodes(kubeconfig) >= 3, 90), (folder / "log").read_text()
        with ApiProxy(_access(kubeconfig), folder, rng) as proxy:
            yield Place("real", kubeconfig, proxy, nodes)
    finally:
        nodes.stop()
        subprocess.run([sys.executable, str(TESTCLUSTER), "down", "--folder", str(folder / "cluster")], check=False)


def kubectl(kubeconfig: Path, *args: str, given: str = "") -> str:
    """Run kubectl and return what it printed."""
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "--request-timeout=30s", *args]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given or None).stdout


def _answers(kubeconfig: Path) -> bool:
    asked = ["kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes"]
    return subprocess.run(asked, capture_output=True).returncode == 0


def _ready_nodes(kubeconfig: Path) -> int:
    asked = ["kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.count(" Ready")


def _access(kubeconfig: Path) -> Any:
    """Read a kubeconfig that may name files."""
    import yaml

    from faults.kube.config import parse

    flat = kubectl(kubeconfig, "config", "view", "--flatten", "--minify", "-o", "yaml")
    return parse(yaml.safe_dump(yaml.safe_load(flat)))
