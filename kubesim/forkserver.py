"""The warmed parent of a host: forks the front and the process of each cluster, passes on signals, and reaps them.

It has read all modules and made a cluster once, so that a fork is ready at once and shares its memory. It has neither
threads nor an event loop: either would not survive a fork. With the front it speaks lines of JSON over a socket pair.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import random
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import orjson

from kubesim.errors import Obj
from kubesim.listener import Listener

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GRACE_S = 5.0
"""From a signal to the end of what has not ended by itself; the supervisor kills after eight seconds."""
NICENESS = 5
MAX_OPEN_FILES = 4096
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
CLEAR_CACHES: Callable[[], None] = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache
"""Else a child writes into each name that it replaces in Python's cache of attributes, and so copies its page."""
LARGE_BYTES = 64 * 1024
BACKLOG = 128
GIVEN_UP = 64
"""Exit status of a copy after which the original goes on. After any other it ends, too."""
log = logging.getLogger("kubesim.forkserver")


def call_prctl() -> Callable[[], object] | None:
    """Return what makes Linux kill this process when its parent has died; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    return partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, int(signal.SIGKILL))


END_WITH_PARENT = call_prctl()


def end_with_parent(parent: int, pipe: int) -> None:
    """Die as soon as the parent has: by Linux' own hand, else by a thread that notices the end of a pipe."""
    if END_WITH_PARENT is not None:
        END_WITH_PARENT()
    else:
        threading.Thread(target=_end_at_eof, args=(pipe,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _end_at_eof(pipe: int) -> NoReturn:
    os.read(pipe, 1)
    os._exit(1)


def go_on_as_copy() -> bool:
    """Fork; True in the copy at once, False in the original as soon as the copy is given up.

    They share event loop and listeners, of which only one makes use at a time. There must be no other thread.
    """
    loop, original = asyncio.get_running_loop(), os.getpid()
    alive, held = os.pipe()
    if not (pid := os.fork()):
        os.close(held)
        end_with_parent(original, alive)
        asyncio._set_running_loop(loop)  # asyncio forgets it at a fork
        return True
    os.close(alive)
    _, status = os.waitpid(pid, 0)
    os.close(held)
    if os.waitstatus_to_exitcode(status) != GIVEN_UP:
        os._exit(1)
    return False


def give_memory_back() -> None:
    """Have glibc return large pieces at once, and threads share one arena: a fork keeps what it has touched once."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((M_TRIM_THRESHOLD, LARGE_BYTES), (M_MMAP_THRESHOLD, LARGE_BYTES), (M_ARENA_MAX, 1)):
            mallopt(option, value)


class ForkServer:
    """Forks what the front asks for, until the front or a signal ends it."""

    def __init__(
        self,
        channel: socket.socket,
        folder: Path,
        run: Callable[[Obj, Listener, Listener], None],
        chores: Iterator[object],
    ) -> None:
        """``run`` is what a cluster's process does; ``chores`` are done one by one while nothing is asked."""
        self._channel = channel
        self._folder = folder
        self._run = run
        self._chores: Iterator[object] | None = chores
        self._clusters: dict[int, int] = {}
        self._front = 0
        self._front_status: int | None = None
        self._stopping: float | None = None
        self._pid = os.getpid()
        self._alive = os.pipe()  # its end tells a child that this process is gone
        self._signals, self._wakeup = socket.socketpair()

    def serve(self, front: Callable[[], None], *theirs: socket.socket) -> int:
        """Run until the front has ended, whose sockets are only its own; returns the exit status."""
        self._listen_to_signals()
        self._front = self._fork(front)
        for found in theirs:
            found.close()
        received = b""
        while self._front_status is None:
            seconds = 1.0 if self._chores is None else 0.0
            ready, _, _ = select.select([self._channel, self._signals], [], [], seconds)
            if not ready:
                self._do_chore()
            if self._signals in ready:
                self._take_signals(self._signals.recv(4096))
            if self._channel in ready:
                *lines, received = (received + self._receive()).split(b"\n")
                for line in lines:
                    self._do(orjson.loads(line))
            self._end_what_is_due()
        return self._finish()

    def _listen_to_signals(self) -> None:
        self._signals.setblocking(False)
        self._wakeup.setblocking(False)
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # which is nohup's work
                signal.signal(number, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakeup.fileno())

    def _receive(self) -> bytes:
        data = self._channel.recv(65536)
        if not data:
            self._kill(self._front)  # it has let go of us
            self._reap(block=self._front)
        return data

    def _take_signals(self, numbers: bytes) -> None:
        if self._stopping is None and set(numbers) & {int(number) for number in STOP_SIGNALS}:
            self._stopping = time.monotonic()
            self._tell({"stop": True})
        self._reap()

    def _end_what_is_due(self) -> None:
        if self._stopping is not None and time.monotonic() - self._stopping > GRACE_S and self._front_status is None:
            self._kill(self._front)
            self._reap(block=self._front)

    def _do(self, asked: Obj) -> None:
        """Fork a cluster's process, or send a signal to one."""
        if "fork" in asked:
            self._fork_cluster(asked["fork"], asked["job"])
        elif asked["signal"] in self._clusters.values():
            pid = next(pid for pid, number in self._clusters.items() if number == asked["signal"])
            os.kill(pid, asked["number"])

    def _fork_cluster(self, number: int, job: Obj) -> None:
        api, control = (self._listener(f"{number}.{name}") for name in ("api", "control"))
        pid = self._fork(partial(self._run, job, api, control), low=True)
        self._clusters[pid] = number
        api.close()
        control.close()
        self._tell({"forked": number, "pid": pid})

    def _listener(self, name: str) -> Listener:
        found = Listener(socket.AF_UNIX)
        found.bind(str(self._folder / name))
        found.listen(BACKLOG)
        return found

    def _fork(self, run: Callable[[], None], *, low: bool = False) -> int:
        """Run something in a process of its own."""
        gc.freeze()
        CLEAR_CACHES()
        # A child has our handlers first, which would tell us of its signals as if they were ours.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            pid = os.fork()
            if not pid:
                self._ignore_signals()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        if pid:
            return pid
        status = 1
        try:
            self._become_child(low=low)
            run()
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        finally:
            # Nothing of the parent's may run here, least of all what it does when it ends.
            _end_process(status)

    @staticmethod
    def _ignore_signals() -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _become_child(self, *, low: bool) -> None:
        end_with_parent(self._pid, self._alive[0])
        for found in (self._channel, self._signals, self._wakeup):
            found.close()
        os.close(self._alive[1])
        random.seed()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if low:
            os.nice(NICENESS)
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def _reap(self, block: int = 0) -> None:
        """Take note of what has ended; ``block``: wait for this one."""
        while self._clusters or self._front_status is None:
            try:
                pid, raw = os.waitpid(block or -1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            status = os.waitstatus_to_exitcode(raw)
            if pid == self._front:
                self._front_status = status
            elif (number := self._clusters.pop(pid, None)) is not None:
                self._tell({"ended": number, "status": status})
            if block:
                return

    def _do_chore(self) -> None:
        if self._chores is not None and next(self._chores, self) is self:
            self._chores = None

    def _tell(self, message: Obj) -> None:
        with suppress(OSError):
            self._channel.sendall(orjson.dumps(message) + b"\n")

    def _kill(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _finish(self) -> int:
        """End every cluster whose front is gone: politely, then not."""
        for pid in self._clusters:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + GRACE_S / 2
        while self._clusters and time.monotonic() < end:
            select.select([self._signals], [], [], 0.1)
            with suppress(BlockingIOError):
                self._signals.recv(4096)
            self._reap()
        for pid in [*self._clusters]:
            self._kill(pid)
            self._reap(block=pid)
        if self._front_status and self._stopping is None:
            log.error("the front ended with %s", self._front_status)
        return 1 if self._front_status and self._stopping is None else 0


def _end_process(status: int) -> NoReturn:
    """End this process, and nothing else."""
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, SystemExit | KeyboardInterrupt):
        log.error("a process of the host failed", exc_info=error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
