"""The table of host calls. A handler is ``async def name(process, **arguments)``; its answer is JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
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


@cache
def _signature(name: str) -> tuple[inspect.Signature, dict[str, Any]]:
    handler = HANDLERS[name]
    return inspect.signature(handler), get_type_hints(handler)


def arguments(name: str, text: str) -> dict[str, Any]:
    """Return the checked arguments of a call; raises ``GuestError``: a program can call with anything."""
    try:
        signature, hints = _signature(name)
        given: dict[str, Any] = signature.bind_partial(**json.loads(text)).arguments
        signature.bind(None, **given)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise GuestError("TypeError", f"malformed call of {name[:64]}") from error
    if not all(_fits(value, hints[each]) for each, value in given.items()):
        raise GuestError("TypeError", f"malformed call of {name}")
    return given


def _fits(value: object, hint: Any) -> bool:
    """Tell whether a value of JSON is of a type; numbers are those of 64 bits."""
    inner = get_args(hint)
    if get_origin(hint) is UnionType:
        return any(_fits(value, each) for each in inner)
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
    if hint in (int, float):
        return isinstance(value, int | hint) and -(2**63) <= value < 2**64
    return isinstance(value, hint)


@dataclass
class State:
    """State of a running program that its process does not hold."""

    signal: Callable[[str], None]
    """Takes a signal that the program handles itself."""
    computed: Callable[[], float]
    """Returns the seconds that the program has computed."""
    children: dict[int, Process] = field(default_factory=dict)
    """The programs that it has started and not yet waited for."""
    timer: asyncio.Future[None] | None = None
    """Sends SIGALRM when it is over."""
    alarm: tuple[float, float] = (0.0, 0.0)
    """The moment at which it does, and the seconds from one signal to the next."""

    def stop_timer(self) -> None:
        """Send no more signals."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None


_states: WeakKeyDictionary[Process, State] = WeakKeyDictionary()


def state(process: Process, new: State | None = None) -> State:
    """Return the state of a program, after it is set to ``new``."""
    if new is not None:
        _states[process] = new
    return _states[process]
