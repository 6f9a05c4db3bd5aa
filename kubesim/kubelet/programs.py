"""Output and end of a process, as a function of the seconds since it started.

Nothing runs: a program is a generator of lines and at most one exit, asked again whenever somebody reads a log. So a
container that has logged for three hours costs nothing until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from typing import Any

FOREVER_S = 30 * 24 * 3600.0
SCAN_LIMIT = 5000
OOM_CODE, OOM_REASON = 137, "OOMKilled"
"""How a process ends whose container's memory is full."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output, ``at`` seconds after the start."""

    at: float
    text: str
    stream: str = "stdout"


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the process."""

    at: float
    code: int
    reason: str = ""


Output = Line | Exit
Run = Callable[[float, int], Iterator[Output]]
"""(horizon in seconds, most lines of each that repeats itself) -> what happens until then."""


@dataclass(frozen=True)
class Program:
    """A process: its run, and its exit code after SIGTERM (None: it ignores it, as most programs do as PID 1)."""

    run: Run
    term_code: int | None = None
    term_after: float = 0.2
    load: str = ""
    """What it does to the GPUs that it has (``gpu/loads.yaml``)."""
    stamped: bool = False
    """True when its lines say when they were printed (``logfile.py``)."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The versions, devices and speed that its lines tell of."""
    start_error: str = ""
    """The runtime's text if the process cannot even be started."""

    @cached_property
    def ending(self) -> Exit | None:
        """Its end by itself, whatever it repeats until then; None for a program that keeps running."""
        return next((out for out in self.run(FOREVER_S, 0) if isinstance(out, Exit)), None)

    def lines(self, until: float) -> Iterator[Line]:
        """Yield what is printed in the first ``until`` seconds."""
        for out in self.run(until, 10**9):
            if isinstance(out, Exit) or out.at > until:
                return
            yield out


def noted(program: Program, notes: Sequence[tuple[float, str]]) -> Program:
    """Return a program that prints some lines more, each ``at`` seconds after its start, on standard error."""
    more = [Line(at, text, "stderr") for at, text in notes]

    def run(horizon: float, limit: int) -> Iterator[Output]:
        due = (line for line in more if line.at <= horizon)
        return merge(program.run(horizon, limit), due, key=lambda out: out.at)

    return replace(program, run=run)


def fixed(*outputs: Output) -> Run:
    """Return the run of a program that does just this."""

    def run(horizon: float, limit: int) -> Iterator[Output]:
        yield from outputs

    return run
