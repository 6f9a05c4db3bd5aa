"""A private PostgreSQL for an installation that is being broken: on loopback, in its own folder, without root."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from torture.machine import SmallDisk, small_disk
from torture.ports import free_port

USER = "faultline"
DISK_BYTES = 256 * 2**20  # an empty server takes 40 MiB, and its log of changes up to 64
START_S = 60.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}


class Postgres:
    """A server that can be stopped, restarted, locked and filled, and whose connections can be cut."""

    def __init__(self, programs: Path, folder: Path, disk: SmallDisk | None) -> None:
        self._programs, self._folder, self.disk = programs, folder, disk
        self._port, self._password = free_port(), secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgres://{USER}:{self._password}@127.0.0.1:{self._port}/postgres"

    def create(self) -> None:
        """Make an empty database."""
        password = self._folder / "password"
        password.write_text(self._password)
        shutil.chown(password, *_owner())
        self._run("initdb", "--auth=scram-sha-256", f"--username={USER}", f"--pwfile={password}", "--encoding=UTF8")
        lines = [f"{name} = '{value}'" for name, value in (*SETTINGS.items(), ("port", str(self._port)))]
        with (self._data / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data)],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                **_as_owner(),
            )
        waited = threading.Event()
        for _ in range(int(START_S * 10)):
            if self._answers():
                return
            waited.wait(0.1)
        raise AssertionError(f"PostgreSQL does not start: {self.log()}")

    def end(self, number: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT cuts every connection, SIGQUIT and SIGKILL leave the rest to the next start."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(START_S)

    def restart(self, number: signal.Signals = signal.SIGINT) -> None:
        """End the server and start it again."""
        self.end(number)
        self.start()

    def mend(self) -> None:
        """Let the server run again, and start it where it has ended."""
        self.send(signal.SIGCONT)
        if self._process is not None and self._process.poll() is not None:
            self.start()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cut_connections(self) -> int:
        """Cut every connection but our own; return how many there were."""
        cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s AND pid <> %s"
        with self.connect() as connection:
            row = connection.execute(cut, (USER, connection.info.backend_pid)).fetchone()
        return int(row[0]) if row else 0

    @contextmanager
    def locked(self, mode: str = "ACCESS EXCLUSIVE", wait_ms: int = 3000) -> Iterator[list[str]]:
        """Lock every table of ours while the block runs; what cannot be had in time raises ``OperationalError``.

        In mode EXCLUSIVE they can still be read, as a locked SQLite.
        """
        ours = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        with self.connect() as connection:
            connection.execute(f"SET lock_timeout = {wait_ms}")
            tables = [str(row[0]) for row in connection.execute(ours).fetchall()]
            connection.execute(f"LOCK TABLE {', '.join(tables)} IN {mode} MODE")
            yield tables
            connection.rollback()

    def connect(self) -> psycopg.Connection[Any]:
        """Return a connection of our own."""
        return psycopg.connect(self.url, connect_timeout=5)

    def log(self) -> str:
        """Return the end of the server's log."""
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    @property
    def _data(self) -> Path:
        return self._folder / "data" / "cluster"

    def _pids(self) -> list[int]:
        if self._process is None or self._process.poll() is not None:
            return []
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError):
            return [self._process.pid, *map(int, children.read_text().split())]
        return [self._process.pid]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"PostgreSQL ended: {self.log()}"
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *args: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *args]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, **_as_owner())
        assert done.returncode == 0, done.stderr


def programs() -> Path | None:
    """Return the folder of the newest server that is installed; None where there is none."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = shutil.which("postgres")
    places = [*reversed(packaged), *([Path(found).resolve().parent] if found else [])]
    return next((place for place in places if (place / "initdb").exists()), None)


def why_not() -> str:
    """Return why no server can be started; empty where one can."""
    if programs() is None:
        return "no server is installed; on Debian: apt-get install postgresql"
    try:
        _owner()
    except KeyError:
        return "a server does not run as root, and there is no user postgres"
    return ""


@contextmanager
def private_postgres() -> Iterator[Postgres]:
    """Run a server; its data is on a small disk of its own where that can be mounted."""
    found = programs()
    assert found is not None, why_not()
    with tempfile.TemporaryDirectory(prefix="fl-postgres-") as name:
        folder = Path(name)
        with small_disk(folder / "data", DISK_BYTES) as disk:
            for path in (folder, folder / "data"):
                shutil.chown(path, *_owner())
            server = Postgres(found, folder, disk)
            server.create()
            server.start()
            try:
                yield server
            finally:
                server.mend()
                server.end()


def _owner() -> tuple[int, int]:
    """Return the user and group of the server: our own, or those of the Debian package where we are root."""
    if os.geteuid():
        return os.geteuid(), os.getegid()
    entry = pwd.getpwnam("postgres")
    return entry.pw_uid, entry.pw_gid


def _as_owner() -> dict[str, Any]:
    if os.geteuid():
        return {}
    user, group = _owner()
    return {"user": user, "group": group, "extra_groups": []}
