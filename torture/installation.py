"""A real installation in a folder of its own: ``manage.py up``, and its processes by name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

from torture.machine import SmallDisk, SteppedClock, small_disk, stepped_clock
from torture.ports import free_port
from torture.postgres import Postgres

ROOT = Path(__file__).resolve().parent.parent
NAMES = {
    "web": "uvicorn",
    "worker": "manage.py work",
    "observer": "manage.py observe",
    "kubesim": "kubesim host",
    "redis": "unixsocket",
}
START_S = 240.0


class Installation:
    """A running ``manage.py up``; ``is_breakable``: with a disk that can be filled, and a clock that can be set.

    Without a ``database`` it has a SQLite of its own, a copy of ``tables`` where they are made already.
    """

    def __init__(
        self,
        folder: Path,
        *,
        is_breakable: bool = False,
        database: Postgres | None = None,
        tables: Path | None = None,
    ) -> None:
        self.folder, self.database, self._tables = folder, database, tables
        self._is_breakable = is_breakable
        self.variables = {
            "DATA_DIR": str(folder / "data"),
            "PORT": str(free_port()),
            "KUBESIM_PORT": str(free_port()),
            "PYTHONWARNINGS": "ignore",
            "DATABASE_URL": database.url if database else "",
        }
        self.log = folder / "log"
        self.disk: SmallDisk | None = None
        self.clock: SteppedClock | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Installation:
        """Start it and wait until it is ready; what was begun is undone where it does not come up."""
        with ExitStack() as stack:
            (self.folder / "data").mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_breakable:
                self.disk = stack.enter_context(small_disk(self.folder / "data"))
                self.clock = stepped_clock(self.folder)
            if self._tables is not None:
                shutil.copy(self._tables, self.folder / "data")
            stack.callback(self._end)
            self._start(self.clock.variables if self.clock else {})
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        """End it, politely first."""
        self._stack.close()

    def _start(self, clock: dict[str, str]) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "manage.py", "up"],
                cwd=ROOT,
                env={**os.environ, **self.variables, **clock},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        waited = threading.Event()
        for _ in range(int(START_S * 10)):
            said = self.log.read_bytes()
            if b"Ready after" in said or (b"Not ready after" in said and b"kubesim host is ready" in said):
                return
            assert self._process.poll() is None, self.log.read_text()[-2000:]
            waited.wait(0.1)
        raise AssertionError(f"not ready after {START_S:.0f} s: {self.log.read_text()[-2000:]}")

    def crash(self) -> None:
        """Kill every process of it, the supervisor first, and take the database away."""
        assert self._process is not None
        pids = _descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.database is not None:
            self.database.send(signal.SIGKILL)
        for path in (self.folder / "data").glob("db.sqlite3*"):
            path.rename(path.with_name(f"away-{path.name}"))

    def start_again(self) -> None:
        """Start it after a crash, with its database."""
        if self.database is not None:
            self.database.mend()
        for path in (self.folder / "data").glob("away-*"):
            path.rename(path.with_name(path.name.removeprefix("away-")))
        self._start(self.clock.variables if self.clock else {})

    def _end(self) -> None:
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_up(self) -> bool:
        """Whether the supervisor runs."""
        return self._process is not None and self._process.poll() is None

    def pids(self, name: str) -> list[int]:
        """Return the ids of a process of this installation: its children belong to it."""
        assert self._process is not None
        return [pid for pid in _descendants(self._process.pid) if NAMES[name] in _command(pid)]

    def send(self, name: str, number: signal.Signals) -> bool:
        """Send a signal to a process; False where it does not run now."""
        sent = False
        for pid in self.pids(name):
            try:
                os.kill(pid, number)
                sent = True
            except ProcessLookupError:
                continue
        return sent

    def resume(self) -> None:
        """Let everything run that was stopped."""
        if self.database is not None:
            self.database.mend()
        for name in NAMES:
            self.send(name, signal.SIGCONT)


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found, more = [], [root]
    while more:
        more = [pid for pid, parent in parents.items() if parent in more]
        found += more
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
