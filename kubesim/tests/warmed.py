"""Programs of tests that are forked from one process, which has read every module of kubesim.

To read them takes a program more than a second of computing. All test processes of a run share that process; it ends
when the last of them has let go of it. With each of its children it has a connection to whoever wanted it, on which
it tells how the child has ended.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TextIO

from kubesim import hosting
from kubesim.commandline import main

GREETING = b"warm\n"
MAX_REQUEST = 1 << 16
MOST_FILES = 1024
ENDLESS = 2  # what is registered as long as the process lives


class Forked:
    """A child of the warmed process: as much of ``subprocess.Popen`` as tests want of it."""

    def __init__(self, line: socket.socket, stdout: TextIO) -> None:
        self._line, self.stdout = line, stdout
        self._told = line.makefile("r")
        self.pid = int(self._told.readline())
        self._status: int | None = None

    def wait(self, timeout: float) -> int:
        """Return the exit status, which is negative for a signal; raises TimeoutError."""
        if self._status is None:
            self._line.settimeout(timeout)
            self._status = int(self._told.readline())
            self._told.close()
            self._line.close()  # from now on nobody remembers the process
        return self._status


def start(code: str, *arguments: str) -> Forked:
    """Fork a process that runs Python code, and then what the command line says."""
    _hold()
    line = _connected()
    reader, writer = os.pipe()
    request = json.dumps({"code": code, "arguments": arguments}).encode() + b"\n"
    socket.send_fds(line, [request], [writer, 2])
    os.close(writer)
    return Forked(line, os.fdopen(reader))


@cache
def _hold() -> None:
    """Keep the warmed process as long as this one lives."""
    atexit.register(_connected().close)


@cache
def _folder() -> Path:
    """Return a folder that all test processes of a run share."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        return Path(tempfile.mkdtemp(prefix="kubesim-warm-"))
    found = Path(tempfile.gettempdir(), f"kubesim-warm-{run[:16]}")
    found.mkdir(mode=0o700, exist_ok=True)
    return found


def _connected() -> socket.socket:
    """Return a connection to the warmed process, which the first to want one starts."""
    with Path(f"{_folder()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        line = _greeted()
        if line is None:
            program = f"from kubesim.tests.warmed import serve; serve({str(_folder())!r})"
            command = [sys.executable, "-W", "ignore", "-c", program]
            subprocess.run(command, check=True, start_new_session=True, stdout=subprocess.DEVNULL)
            line = _greeted()
    assert line is not None
    return line


def _greeted() -> socket.socket | None:
    """Return a connection on which the warmed process has answered; None where there is none."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(_folder() / "socket"))
        if line.recv(len(GREETING)) == GREETING:
            return line
    except (FileNotFoundError, ConnectionError):
        pass
    line.close()
    return None


def serve(folder: str) -> None:
    """Become the warmed process; what was called returns as soon as somebody can connect."""
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    path = Path(folder, "socket")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    if os.fork():
        os._exit(0)
    for _ in hosting._read_modules():
        pass
    gc.collect()
    gc.freeze()
    _Warmed(listener).run()
    shutil.rmtree(folder, ignore_errors=True)
    Path(f"{folder}.lock").unlink(missing_ok=True)


class _Warmed:
    """Forks what is asked for on each connection, and tells on it when that has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._children: dict[socket.socket, int] = {}
        self._ended: set[int] = set()
        self._wake, wakeup = socket.socketpair()
        self._wake.setblocking(False)
        wakeup.setblocking(False)
        self._wakeup = wakeup
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake, selectors.EVENT_READ, self._tell)

    def run(self) -> None:
        """Work until nobody is connected any more."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakeup.fileno())
        used = False
        while not used or len(self._selector.get_map()) > ENDLESS:
            for key, _ in self._selector.select():
                key.data(key.fileobj)
            used = used or len(self._selector.get_map()) > ENDLESS

    def _accept(self, listener: socket.socket) -> None:
        line, _ = listener.accept()
        self._selector.register(line, selectors.EVENT_READ, self._hear)
        line.sendall(GREETING)

    def _hear(self, line: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(line, MAX_REQUEST, 2)
        if not data:
            self._forget(line)
            return
        while not data.endswith(b"\n"):
            data += line.recv(MAX_REQUEST)
        pid = os.fork()
        if not pid:
            self._become(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._children[line] = pid
        line.sendall(b"%d\n" % pid)

    def _forget(self, line: socket.socket) -> None:
        """Let go of a process that nobody asks about any more, and end it where that has not happened."""
        self._selector.unregister(line)
        line.close()
        pid = self._children.pop(line, None)
        if pid is not None:
            if pid not in self._ended:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._ended.discard(pid)

    def _tell(self, wake: socket.socket) -> None:
        """Tell of children that have ended; none makes room for another of its id before it is forgotten."""
        with suppress(BlockingIOError):
            wake.recv(4096)
        for line, pid in self._children.items():
            if pid not in self._ended:
                found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is not None:
                    self._ended.add(pid)
                    exited = found.si_code == os.CLD_EXITED
                    line.sendall(b"%d\n" % (found.si_status if exited else -found.si_status))

    def _become(self, request: dict[str, Any], stdout: int, stderr: int) -> NoReturn:
        """Turn this fork into the process that was asked for."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, MOST_FILES)
        random.seed()
        sys.argv = ["kubesim", *request["arguments"]]
        status = 1
        try:
            exec(request["code"], {"__name__": "__main__"})
            status = main()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        finally:
            _end(status)


def _end(status: int) -> NoReturn:
    """End this process, and run nothing of its parent's."""
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, SystemExit):
        traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
