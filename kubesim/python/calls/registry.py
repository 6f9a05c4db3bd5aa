"""The table of host calls. A handler is ``async def name(process, **arguments)``; its answer is JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from kubesim.shell.machine import Process

Handler = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)
LINUX: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "guest" / "linux.json").read_text("utf-8"))
"""Linux' numbers and words, whatever system this runs on: errno, strerror, open's flags."""
HANDLERS: dict[str, Handler] = {}
BLOCKING: set[str] = set()
"""Calls that a signal interrupts, as it does system calls."""


class GuestError(Exception):
    """Raised in the program as ``kind``, a name of builtins or ``module.Name``, with these arguments."""

    def __init__(self, kind: str, *args: object) -> None:
        super().__init__(kind, *args)
        self.kind, self.values = kind, args


class Over(Exception):
    """The program ends now, with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def call(handler: H) -> H:
    """Register a handler under its name, without the underscore that keeps it from hiding a builtin."""
    name = handler.__name__.rstrip("_")
    if name in HANDLERS:
        raise ValueError(f"two handlers of the call {name}")
    HANDLERS[name] = handler
    return handler


def blocking(handler: H) -> H:
    """Register a handler that may wait for long, until a signal interrupts it."""
    BLOCKING.add(handler.__name__.rstrip("_"))
    return call(handler)


@dataclass
class State:
    """State of a running program that its process does not hold."""

    signal: Callable[[str], None]
    """Takes a signal that the program handles itself."""
    children: dict[int, Process] = field(default_factory=dict)
    """The programs that it has started and not yet waited for."""


_states: WeakKeyDictionary[Process, State] = WeakKeyDictionary()


def state(process: Process, new: State | None = None) -> State:
    """Return the state of a program, after it is set to ``new``."""
    if new is not None:
        _states[process] = new
    return _states[process]
