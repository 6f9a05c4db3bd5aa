"""Terraform in a process of its own: nothing that a candidate writes is parsed or evaluated where the cluster runs.

Before it sees any of it, the process gives up opening files and sockets, starting processes, more memory and more
time; whatever it wants to read or ask, it asks of its parent (``host``), which has only the pod to offer.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
import time
from typing import Any

MAX_CPU_S, HARD_CPU_S, MAX_MEMORY = 1.6, 3, 512 << 20
LIMITS = (
    (resource.RLIMIT_CPU, HARD_CPU_S), (resource.RLIMIT_AS, MAX_MEMORY), (resource.RLIMIT_NOFILE, 0),
    (resource.RLIMIT_NPROC, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
)  # fmt: skip


class TooLong(BaseException):
    """The time that a run may compute is over; no handler of the interpreter's own may take it for something else."""


def confine() -> None:
    """Give up what an evaluation has no need of."""
    for which, limit in LIMITS:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (limit, limit))
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)


def _late(*_: Any) -> None:
    raise TooLong


def main() -> None:
    """Serve one command, which stands on the first line of standard input."""
    sys.path[:0] = sys.argv[1:]
    from kubesim.terraform import commands, diagnostics, functions, host, schema
    from kubesim.terraform.syntax import parse

    sys.setrecursionlimit(3000)
    parse("a = 1", "warm")
    schema.resource_type("managed", "")
    diagnostics.told("loaded")
    functions.functions()
    request = json.loads(sys.stdin.buffer.readline())
    confine()
    way = host.Host(request["folder"], request["environment"], width=request["width"])
    status = 1
    try:
        status = commands.run(way, request["argv"])
    except TooLong:
        _complain(way, "configuration_takes_too_long")
    except (MemoryError, RecursionError):
        _complain(way, "configuration_is_too_large")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    way.tell("end", status, time.process_time())


def _complain(way: Any, key: str) -> None:
    from kubesim.terraform.diagnostics import Problem, drawn, told

    way.complain(drawn([Problem(*told(key))], way.source, color=way.color))


if __name__ == "__main__":
    main()
