"""The processes of an installation on one machine: one list, used by ``up`` and by the tests."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from honcho.manager import Manager
from honcho.process import Process

from interview_site import redis_server

# A process that ends for one of these reasons was asked to.
ASKED_TO_STOP = {0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT}
MOST_RESTARTS = 5
WITHIN_SECONDS = 60.0
# The worker does not take the serializer from the queue's settings, and by itself it would expect pickles.
RQWORKER = ("rqworker", "--verbosity", "0", "--serializer", "rq.serializers.JSONSerializer")


@dataclass(frozen=True)
class Command:
    """A process: its name in the log and its command line."""

    name: str
    argv: list[str]

    @property
    def shell(self) -> str:
        """Return the command for honcho, which starts a shell; ``exec`` makes the shell become the process."""
        return "exec " + shlex.join(self.argv)


def commands() -> Iterator[Command]:
    """Yield every process of this installation."""
    if settings.OWN_REDIS:
        yield Command("redis", _redis())
    yield Command("kubesim", _kubesim())
    yield Command("web", _web())
    for index in range(1, settings.WORKERS + 1):
        yield Command(f"worker.{index}", _manage(*RQWORKER, "faults", "default"))
    yield Command("observer", _manage("observe"))


def _manage(*args: str) -> list[str]:
    return [sys.executable, "-W", "ignore", str(settings.BASE_DIR / "manage.py"), *args]


def _redis() -> list[str]:
    server = redis_server.find()
    assert server is not None  # preflight has found one
    return redis_server.command(server, settings.RUN_DIR / "redis.sock", settings.RUN_DIR)


def _kubesim() -> list[str]:
    return [
        *(sys.executable, "-m", "kubesim", "host"),
        *("--bind", settings.BIND),
        *("--port", str(settings.KUBESIM_PORT)),
        *("--public-host", settings.PUBLIC_HOST),
        *("--data", str(settings.KUBESIM_DIR)),
    ]


def _web() -> list[str]:
    return [
        *(sys.executable, "-m", "uvicorn", "interview_site.asgi:application"),
        *("--host", settings.BIND),
        *("--port", str(settings.PORT)),
        *("--log-level", "warning"),
        *("--timeout-graceful-shutdown", "2"),
        *("--lifespan", "off"),
    ]


class RestartingProcess(Process):  # type: ignore[misc]
    """A process that is started again when it dies by itself, so that one crash does not end an interview."""

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        """Run until asked to stop, or until it has died too often to be worth starting again."""
        deaths: list[float] = []
        self._events = events
        while (returncode := self._run_once(ignore_signals)) not in ASKED_TO_STOP:
            now = time.monotonic()
            deaths = [death for death in deaths if now - death < WITHIN_SECONDS] + [now]
            if len(deaths) > MOST_RESTARTS:
                break
            self._send_message(f"ended with {returncode}; starting it again\n".encode())
        self._send_message({"returncode": returncode}, type="stop")

    def _run_once(self, ignore_signals: bool) -> int:
        child = self._child_ctor(self.cmd, env=self.env, cwd=self.cwd)
        self._send_message({"pid": child.pid}, type="start")
        if ignore_signals:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in iter(child.stdout.readline, b""):
            self._send_message(line)
        child.stdout.close()
        return int(child.wait())


class Supervisor(Manager):  # type: ignore[misc]
    """Honcho's manager, but what the others talk to ends last, so that they can end in good order."""

    LAST = "redis"

    def __init__(self) -> None:
        super().__init__()
        self._last_told = False

    def _killall(self, force: bool = False) -> None:
        spared = self._processes.pop(self.LAST, None) if self._others_run() and not force else None
        super()._killall(force)
        if spared is not None:
            self._processes[self.LAST] = spared

    def _all_stopped(self) -> bool:
        if self._terminating and not self._last_told and not self._others_run():
            self._last_told = True
            self._killall()
        return bool(super()._all_stopped())

    def _others_run(self) -> bool:
        return any(
            process.get("returncode") is None for name, process in self._processes.items() if name != self.LAST
        )


def manager() -> Manager:
    """Return the supervisor with every process added and none started."""
    supervisor = Supervisor()
    supervisor._process_ctor = RestartingProcess
    for command in commands():
        supervisor.add_process(command.name, command.shell, cwd=str(settings.BASE_DIR))
    return supervisor
