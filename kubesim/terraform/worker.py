"""Terraform in a process of its own: nothing that a candidate writes is parsed or evaluated where the cluster runs.

A parent that has read all modules forks one for each command. Before that sees any of it, it gives up opening files
and sockets, starting processes, more memory and more time; whatever it wants to read or ask, it asks through its
socket (``host``) of the cluster's process, which has only the pod to offer.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
import time
from typing import Any

MAX_CPU_S, HARD_CPU_S, MAX_MEMORY = 1.6, 2, 192 << 20
LIMITS = (
    (resource.RLIMIT_CPU, HARD_CPU_S), (resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_NOFILE, 0),
    (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
)  # fmt: skip
LOOK_S = 0.1
"""Of computing, between two looks whether there was too much of it, and whether anybody still wants its result."""
IDLE_S = 120.0
"""After so long without a command the parent ends; the next command starts another."""


class TooLong(BaseException):
    """The time that a run may compute is over; no handler of the interpreter's own may take it for something else."""


def confine(number: int) -> None:
    """Give up what an evaluation has no need of; ``number`` is that of the socket."""
    peer = socket.socket(fileno=number)

    def look(*_: Any) -> None:
        with contextlib.suppress(BlockingIOError):
            if not peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                os._exit(1)
        if time.process_time() > MAX_CPU_S:
            signal.setitimer(signal.ITIMER_PROF, 0)
            raise TooLong

    for which, limit in LIMITS:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, limit))
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK_S, LOOK_S)


def main() -> None:
    """Fork a process for each socket that comes through the channel, until that is closed or nothing comes."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:0] = sys.argv[2:]
    _load()
    signal.signal(signal.SIGCHLD, _reap)
    channel.settimeout(IDLE_S)
    gc.freeze()
    while True:
        try:
            found = socket.recv_fds(channel, 1, 1)[1]
        except TimeoutError:
            channel.shutdown(socket.SHUT_RD)  # what came in the meantime is still read
            continue
        if not found:
            return
        if not os.fork():
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                channel.close()
                _serve(found[0])
            finally:
                os._exit(0)
        os.close(found[0])


def _reap(*_: Any) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _load() -> None:
    """Read what every command needs."""
    from kubesim.terraform import commands, diagnostics, functions, schema, syntax

    sys.setrecursionlimit(3000)
    syntax.parse("a = 1", "warm")
    schema.resource_type("managed", "")
    diagnostics.told("loaded")
    functions.functions()
    assert commands.COMMANDS


def _serve(number: int) -> None:
    """Serve one command, which stands on the first line that the socket has."""
    from kubesim.terraform import commands, host

    for stream in (0, 1):
        os.dup2(number, stream)
    request = json.loads(sys.stdin.buffer.readline())
    confine(number)
    way = host.Host(request["folder"], request["environment"], width=request["width"])
    status = 1
    try:
        status = commands.run(way, request["argv"])
    except TooLong:
        _complain(way, "configuration_takes_too_long")
    except (MemoryError, RecursionError):
        _complain(way, "configuration_is_too_large")
    except (LookupError, TypeError, ValueError, AttributeError):
        _complain(way, "files_of_terraform_are_not_its_own")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    way.tell("end", status, time.process_time())


def _complain(way: Any, key: str) -> None:
    from kubesim.terraform.diagnostics import Problem, drawn, told

    way.complain(drawn([Problem(*told(key))], way.source, color=way.color))


if __name__ == "__main__":
    main()
