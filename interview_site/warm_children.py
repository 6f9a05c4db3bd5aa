"""The supervisor's side of the warmed parent: asks it for processes and hears when they end, without Django."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from contextlib import suppress
from typing import BinaryIO

MAX_ANSWER = 4096
START_S = 20.0  # for the imports, on a busy machine
LOST = -1  # the return code of a process whose parent has died: nobody can tell


class NoWarmParent(Exception):
    """The warmed parent has ended or does not answer."""


class ForkedChild:
    """A process of the warmed parent, with as much of ``Popen`` as the supervisor uses."""

    def __init__(self, pid: int, stdout: BinaryIO) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = threading.Event()

    def ended(self, returncode: int) -> None:
        """Take the return code."""
        if self.returncode is None:
            self.returncode = returncode
            self._ended.set()

    def wait(self) -> int:
        """Wait for the end and return the return code."""
        self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class WarmParent:
    """The channel to the warmed parent. Safe to use from several threads; once it is gone, it stays gone."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._pids: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._children: dict[int, ForkedChild] = {}
        self._early: dict[int, int] = {}
        self._gone = False
        threading.Thread(target=self._listen, name="warm parent", daemon=True).start()

    def start(self, argv: list[str]) -> ForkedChild:
        """Return a new process of a command line. Raises ``NoWarmParent``."""
        read, write = os.pipe2(os.O_CLOEXEC)
        try:
            with self._lock:
                pid = self._ask(argv, write)
                child = ForkedChild(pid, os.fdopen(read, "rb"))
                self._children[pid] = child
                if pid in self._early:
                    child.ended(self._early.pop(pid))
        except NoWarmParent:
            os.close(read)
            raise
        finally:
            os.close(write)
        if self._gone:
            child.ended(LOST)
        return child

    def _ask(self, argv: list[str], output: int) -> int:
        if self._gone:
            raise NoWarmParent
        try:
            socket.send_fds(self._channel, [json.dumps({"argv": argv}).encode()], [output])
            pid = self._pids.get(timeout=START_S)
        except (OSError, queue.Empty):
            self._gone = True
            raise NoWarmParent from None
        if pid is None:
            raise NoWarmParent
        return pid

    def _listen(self) -> None:
        data = b"-"
        while data:
            data = b""
            with suppress(OSError):
                data = self._channel.recv(MAX_ANSWER)
            if data:
                self._take(json.loads(data))
        self._gone = True
        self._pids.put(None)
        for child in list(self._children.values()):
            child.ended(LOST)

    def _take(self, answer: dict[str, int]) -> None:
        pid = answer["pid"]
        if "returncode" not in answer:
            self._pids.put(pid)
        elif child := self._children.pop(pid, None):
            child.ended(answer["returncode"])
        else:
            self._early[pid] = answer["returncode"]
