"""wasmtime's engine of this process: it loads the component and interrupts programs that compute.

An engine has threads: it is made by the first program, which runs in a cluster's own process, never before a fork.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

try:
    import wasmtime
    from wasmtime import _bindings as bindings
    from wasmtime import component
except (ImportError, OSError):  # no wheel for this platform
    wasmtime = None  # type: ignore[assignment]

TICK_S = 0.02
MAX_STACK = 4 << 20
WALL_CLOCK = "wasi:clocks/wall-clock@0.2.9"
KILLED = b"killed"


class Unavailable(Exception):
    """No sandboxed Python on this machine; the message says why."""


class Guest(Protocol):
    """A program as its instance calls it, in the program's thread."""

    def host(self, name: str, args: str) -> str:
        """Answer a call."""

    def now(self) -> float:
        """Return the seconds since 1970 of the machine's clock."""

    def tick(self) -> bool:
        """Note that it has computed for a while; False ends it."""


def configuration() -> Any:
    """Return how components are compiled and loaded. Raises ``Unavailable``."""
    if wasmtime is None:
        raise Unavailable("wasmtime has no wheel for this platform")
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.wasm_component_model = True
    bindings.wasmtime_config_async_stack_size_set(config.ptr(), MAX_STACK + (1 << 20))  # must be more; it is not used
    config.max_wasm_stack = MAX_STACK
    return config


def compiled(path: Path) -> bytes:
    """Compile a component to what loads at once."""
    engine = wasmtime.Engine(configuration())
    return bytes(component.Component.from_file(engine, str(path)).serialize())


class Engine:
    """The loaded component. Each call of ``run`` is an instance of its own, in the caller's thread."""

    def __init__(self, path: Path) -> None:
        self._engine = wasmtime.Engine(configuration())
        self._component = component.Component.deserialize_file(self._engine, str(path))
        self._linker = self._link()
        self._current = threading.local()
        self.running = self.computing = 0
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # no thread survives it

    def _begin(self) -> None:
        threading.Thread(target=self._beat, name="python-epochs", daemon=True).start()

    def _link(self) -> Any:
        linker = component.Linker(self._engine)
        linker.allow_shadowing = True
        linker.add_wasip2()
        with linker.root() as root:
            root.add_func("host", lambda store, name, args: self._answer(name, args))
            with root.add_instance(WALL_CLOCK) as clock:
                clock.add_func("now", lambda store: _moment(self._current.guest.now()))
                clock.add_func("resolution", lambda store: _moment(1e-9))
        return linker

    def _answer(self, name: str, args: str) -> Any:
        """Let the machine answer a call: a program that waits computes nothing, and needs no epochs."""
        self._count(-1)
        try:
            return self._current.guest.host(name, args)
        finally:
            self._count(1)

    def _beat(self) -> None:
        """Count epochs while programs compute."""
        while True:
            self._busy.wait()
            time.sleep(TICK_S)
            self._engine.increment_epoch()

    def run(self, guest: Guest, start: str, memory: int) -> int:
        """Run one program in this thread; raises ``Ended`` where it is ended or traps."""
        store = wasmtime.Store(self._engine)
        store.set_wasi(wasmtime.WasiConfig())
        store.set_limits(memory_size=memory)
        store.set_epoch_deadline(1)
        tick = _ticker(guest.tick)
        bindings.wasmtime_store_epoch_deadline_callback(store.ptr(), tick, None, _NOTHING)
        self._current.guest = guest
        self._count(1, 1)
        try:
            instance = self._linker.instantiate(store, self._component)
            run = instance.get_func(store, "run")
            return int(run(store, start))
        finally:
            self._count(-1, -1)
            store.close()

    def _count(self, computing: int, running: int = 0) -> None:
        with self._lock:
            self.running += running
            self.computing += computing
            if self.computing:
                self._busy.set()
            else:
                self._busy.clear()


def _moment(seconds: float) -> Any:
    moment = component.Record()
    vars(moment).update(seconds=int(seconds), nanoseconds=int(seconds % 1 * 1e9))
    return moment


if wasmtime is not None:
    _TICK = ctypes.CFUNCTYPE(
        ctypes.c_size_t,
        ctypes.POINTER(bindings.wasmtime_context_t),
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(bindings.wasmtime_update_deadline_kind_t),
    )
    _NOTHING = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(0)


def _ticker(tick: Callable[[], bool]) -> Any:
    """Return the C function that wasmtime calls at each epoch: it goes on, or gives an error back."""

    def beat(context: object, data: object, delta: Any, kind: Any) -> int:
        if not tick():
            return int(ctypes.cast(bindings.wasmtime_error_new(KILLED), ctypes.c_void_p).value or 0)
        delta[0], kind[0] = 1, 0
        return 0

    return _TICK(beat)


_engine: Engine | None = None
_making = threading.Lock()


def engine(path: Callable[[], Path]) -> Engine:
    """Return the engine of this process, made when it is first asked for. Raises ``Unavailable``."""
    global _engine
    with _making:
        _engine = _engine or Engine(path())
        return _engine


def running_programs() -> int:
    """Return the number of programs that this process runs."""
    return _engine.running if _engine is not None else 0


Ended: type[Exception] = Unavailable if wasmtime is None else wasmtime.WasmtimeError
"""Raised by ``run`` where the instance was ended or has trapped; raised in a call, it ends the instance."""
