"""A whole installation in a folder of its own, started and asked for what it uses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.programs import compiled, seconds_of

ROOT = Path(__file__).resolve().parents[1]
READY = "Ready after"
END_S = 30
SCENARIO = "architecture-mismatch"
"""The pack that is prepared and rehearsed: its symptom shows at once."""


@dataclass
class Installation:
    """A running ``manage.py up`` in a folder of its own."""

    process: subprocess.Popen[str]
    environment: dict[str, str]
    ready_s: float = 0.0

    @property
    def address(self) -> str:
        """Return host and port of the site."""
        return f"127.0.0.1:{self.environment['PORT']}"

    def run(self, scene: str, text: str = "") -> str:
        """Run a script of this folder inside, which reads ``text``; return the last line that it prints."""
        code = (ROOT / "bench" / f"{scene}.py").read_text(encoding="utf-8")
        command = [sys.executable, "-W", "ignore", "manage.py", "shell", "-v0", "-c", code]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, input=text, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip().splitlines()[-1]

    def pids(self) -> list[int]:
        """Return the supervisor and everything below it."""
        return _family_of(self.process.pid)

    def seconds(self) -> float:
        """Return the processor time that all processes have used."""
        return family_seconds(self.process.pid)

    def memory(self) -> float:
        """Return the sum of what all processes hold, in MB; what several share is counted once."""
        total = 0
        for pid in self.pids():
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024


def family_seconds(supervisor: int) -> float:
    """Return the processor time that a process and everything below it have used."""
    total = 0.0
    for pid in _family_of(supervisor):
        with suppress(OSError):
            total += seconds_of(pid)
    return total


def _family_of(supervisor: int) -> list[int]:
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text(encoding="ascii", errors="replace")
            parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found = [supervisor]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Run an installation until the block ends."""
    found = start(folder)
    try:
        yield found
    finally:
        found.process.send_signal(signal.SIGTERM)
        found.process.communicate(timeout=END_S)


def start(folder: Path) -> Installation:
    """Start an installation and wait until it says that it is ready."""
    environment = {name: value for name, value in compiled().items() if name not in ("REDIS_URL", "DATABASE_URL")}
    environment |= {"DATA_DIR": str(folder), "PORT": str(_free_port()), "KUBESIM_PORT": str(_free_port())}
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "manage.py", "up"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if READY in line:
            return Installation(process, environment, time.monotonic() - begun)
    raise RuntimeError("the installation ended before it was ready")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
