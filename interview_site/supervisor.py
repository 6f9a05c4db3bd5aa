"""Starts processes, starts again what dies, and ends all of it in good order: honcho's parts, in threads.

With honcho's own loop one dead process ends all, and each process has a second one of ours beside it that a closed
terminal or a ``kill -9`` can leave behind. Here there is one process; where it dies, Linux ends the others.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

from honcho.manager import Manager
from honcho.printer import Message, Printer
from honcho.process import Process

from interview_site import masking
from interview_site.commands import Command
from interview_site.lock_watch import LockWatch
from interview_site.warm_children import NoWarmParent, WarmParent

ASKS_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds before each new start; the last one goes on where it once stayed up
STAYED_UP_S = 10.0
# A worker that is asked twice gives up its job; what still runs after that is killed.
ASK_AGAIN_S, KILL_S = 4.0, 8.0
LAST = "redis"
TICK_S, IDLE_TICK_S = 0.1, 1.0
"""Between two looks at the terminal and at what is to be ended; signals and lines are taken at once."""
PR_SET_PDEATHSIG = 1


def _end_with_us() -> Callable[[], None] | None:
    """Return what makes Linux end a process when its supervisor has been killed; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, int(signal.SIGTERM))


END_WITH_US = _end_with_us()


def _in_the_foreground() -> bool:
    """Return whether a person sits before us at a terminal."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


class RestartingProcess(Process):  # type: ignore[misc]
    """A process that is started again when it ends by itself, so that one crash does not end an interview."""

    def __init__(self, *args: Any, stopping: threading.Event, pauses: Sequence[float] = PAUSES, **more: Any) -> None:
        super().__init__(*args, **more)
        self.stopping = stopping
        self.pauses = pauses
        self.warm: WarmParent | None = None

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        """Run until everything stops, or give up where it has not once stayed up for a while."""
        self._events = events
        pauses = iter(self.pauses)
        returncode = 0
        while not self.stopping.is_set():
            began = time.monotonic()
            returncode = self._run_once()
            if time.monotonic() - began > STAYED_UP_S:
                pauses = itertools.chain(self.pauses, itertools.repeat(self.pauses[-1]))
            pause = next(pauses, None)
            if pause is None or self.stopping.is_set():
                break
            self._send_message(f"ended with {returncode}; starting it again\n".encode())
            self.stopping.wait(pause)
        self._send_message({"returncode": returncode}, type="stop")

    def _run_once(self) -> int:
        child = self._child = self._start()
        if self.stopping.is_set():  # asked while it was being started
            self.end(signal.SIGTERM)
        for line in iter(child.stdout.readline, b""):
            self._send_message(line)
        child.stdout.close()
        return int(child.wait())

    def _start(self) -> Any:
        """Return the new process: forked from the warmed parent while there is one."""
        if self.warm is not None:
            try:
                return self.warm.start(shlex.split(self.cmd)[1:])
            except NoWarmParent:
                self.warm = None
        return self._child_ctor(self.cmd, env=self.env, cwd=self.cwd, preexec_fn=END_WITH_US)

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the process and to its own children."""
        if self._child is not None and self._child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


class Outlet:
    """Standard output in whole lines, without secrets; a closed terminal or pipe takes them silently."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""

    def isatty(self) -> bool:
        """Return whether colours make sense."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Keep the text until it is flushed."""
        self._text += text
        return len(text)

    def flush(self) -> None:
        """Write what was kept, in one piece."""
        text, self._text = masking.mask(self._text), ""
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class Supervisor(Manager):  # type: ignore[misc]
    """Runs every command until it is asked to stop, or until one of them does not stay up."""

    def __init__(
        self,
        commands: Iterable[Command],
        folder: str,
        warm: WarmParent | None = None,
        database: Path | None = None,
    ) -> None:
        self.database = database
        self._outlet = Outlet(sys.stdout)
        super().__init__(Printer(self._outlet))
        self.events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.stopping = threading.Event()
        self._process_ctor = partial(RestartingProcess, stopping=self.stopping)
        self._signals: list[int] = []
        self._since = 0.0
        for command in commands:
            process = self.add_process(command.name, command.shell, cwd=folder)
            process.warm = warm if command.forked else None

    def loop(self) -> None:
        """Start everything and return when all of it has ended; ``returncode`` is then 0, or why it ended."""
        self.returncode = 0
        for number in ASKS_TO_STOP:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup wants it
                signal.signal(number, self._take_signal)
        if self.database is not None:
            LockWatch(self.database, self._groups, self.say).start(self.stopping)
        terminal = _in_the_foreground() and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
        for name, entry in self._processes.items():
            threading.Thread(target=entry["obj"].run, args=(self.events,), name=name, daemon=True).start()
        while self._running():
            with suppress(queue.Empty):
                self._take(self.events.get(timeout=TICK_S if self.stopping.is_set() else IDLE_TICK_S))
            # `make` does not pass on that its terminal was closed.
            closed = terminal and not os.isatty(sys.stdin.fileno())
            if (self._signals or closed) and not self.stopping.is_set():
                self._stop("Stopping everything ...")
            if self.stopping.is_set():
                self._end_what_is_due()

    def _take_signal(self, number: int, frame: object) -> None:
        self._signals.append(number)
        self.events.put(Message("wake", "", None, None, None))  # which a SimpleQueue allows here

    def say(self, text: str) -> None:
        """Print a line without a prefix, for a person who waits for it; safe from any thread."""
        self.events.put(Message("plain", text, None, None, None))

    def _groups(self) -> set[int]:
        """Return the process groups of what runs; each process leads one."""
        children = [entry["obj"]._child for entry in self._processes.values()]
        return {child.pid for child in children if child is not None and child.returncode is None}

    def _running(self) -> list[str]:
        return [name for name, entry in self._processes.items() if "returncode" not in entry]

    def _take(self, message: Message) -> None:
        if message.type == "plain":
            print(message.data, file=self._outlet, flush=True)
            return
        if message.type == "wake":
            return
        if message.type == "line":
            self._printer.write(message)
            return
        returncode = self._processes[message.name]["returncode"] = message.data["returncode"]
        if not self.stopping.is_set():
            self.returncode = returncode or 1
            self._stop(f"{message.name} does not stay up; its last lines say why. Stopping everything ...")

    def _stop(self, why: str) -> None:
        self.stopping.set()
        self._since = time.monotonic()
        print(why, file=self._outlet, flush=True)

    def _end_what_is_due(self) -> None:
        """Ask, ask again, kill; what the others talk to comes last, so that they can end in good order."""
        waited = time.monotonic() - self._since
        due = [name for name in self._running() if name != LAST] or self._running()
        for name in due:
            asked = self._processes[name].setdefault("asked", 0)
            if asked < 1 + (waited > ASK_AGAIN_S):
                self._processes[name]["asked"] = asked + 1
                self._processes[name]["obj"].end(signal.SIGTERM)
            elif waited > KILL_S:
                self._processes[name]["obj"].end(signal.SIGKILL)


def announce(supervisor: Supervisor, argv: list[str], folder: str, warm: WarmParent | None) -> None:
    """Say what a process says that waits until all is ready."""
    try:
        child: Any = warm.start(argv) if warm else None
    except NoWarmParent:
        child = None
    if child is None:
        child = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, preexec_fn=END_WITH_US)  # noqa: S603
    for line in iter(child.stdout.readline, b""):
        if not supervisor.stopping.is_set():
            supervisor.say(line.decode(errors="replace").rstrip("\n"))
    child.stdout.close()
    child.wait()


def become(
    commands: list[Command],
    folder: str,
    ready: list[str],
    channel: socket.socket | None,
    database: str | None = None,
) -> NoReturn:
    """Replace this process, which knows Django, by a supervisor that does not; the open locks stay with it.

    ``database`` is the file of a SQLite whose lock is watched.
    """
    plan = {
        "commands": [asdict(command) for command in commands],
        "folder": folder,
        "ready": ready,
        "channel": channel.fileno() if channel else None,
        "database": database,
    }
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="utf-8") as file:
        json.dump(plan, file)  # far smaller than what a pipe holds
    for descriptor in (read, *([channel.fileno()] if channel else [])):
        os.set_inheritable(descriptor, True)
    os.chdir(folder)
    argv = [sys.executable, "-W", "ignore", "-m", "interview_site.supervisor", str(read)]
    os.execv(sys.executable, argv)  # noqa: S606


def main(plan_descriptor: int) -> int:
    """Run the plan that ``become`` has written, and return the exit status."""
    with os.fdopen(plan_descriptor, encoding="utf-8") as file:
        plan = json.load(file)
    channel = plan["channel"]
    warm = WarmParent(socket.socket(fileno=channel)) if channel is not None else None
    if channel is not None:
        os.set_inheritable(channel, False)
    database = Path(plan["database"]) if plan["database"] else None
    supervisor = Supervisor([Command(**each) for each in plan["commands"]], plan["folder"], warm, database)
    arguments = (supervisor, plan["ready"], plan["folder"], warm)
    threading.Thread(target=announce, args=arguments, daemon=True).start()
    supervisor.loop()
    return int(supervisor.returncode or 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
