"""One Python program: its instance computes in a thread, its process on the event loop answers what it asks.

The thread waits for each answer, so a call may take as long as it likes in the machine's time. What the program
computes between two calls is counted like any other computing of its container, and waits where that had its share.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from kubesim.clock import OUTSIDE
from kubesim.python import build
from kubesim.python.calls import clock, collectives, devices, files, network, processes
from kubesim.python.calls.registry import BLOCKING, HANDLERS, LINUX, GuestError, Over, State, arguments, state
from kubesim.python.engine import Ended, Engine, engine
from kubesim.shell.errors import BrokenPipe, FileError, NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.signals import NUMBERS

THEMES = (clock, collectives, devices, files, network, processes)
ENDLESS_S = 1.0
"""A program that has computed for so long without a call may do so for ever: nobody waits for it."""
MAX_PAUSE_S = 0.1
NICE = 10
CRASHED = 128 + NUMBERS["SEGV"]
NETWORK_ERRORS = {
    "refused": "ECONNREFUSED", "timeout": "ETIMEDOUT", "unreachable": "EHOSTUNREACH", "reset": "ECONNRESET"
}  # fmt: skip


def _os_error(code: str, *path: str) -> dict[str, Any]:
    """Return the answer that raises OSError with Linux' number and words."""
    number = LINUX["errno"][code]
    return {"error": ["OSError", [number, LINUX["strerror"][str(number)], *path]]}


class Execution:
    """A running program. ``signals`` have come and were not yet told to it."""

    def __init__(self, process: Process, memory: int) -> None:
        self.process = process
        self.signals: list[str] = []
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[tuple[str, str]] = self._loop.create_future()
        self._answer = ""
        self._answered = threading.Semaphore(0)
        self._signalled: asyncio.Future[None] | None = None
        self._over = False
        self._status = CRASHED
        self._used = self._total = self._counted = self._since = 0.0
        self._outside: asyncio.Future[None] | None = None
        state(process, State(self.signal, lambda: self._total))

    async def run(self, start: dict[str, Any]) -> int:
        """Run the program until it ends; returns its status. Raises ``Unavailable``."""
        self._compute()
        try:
            made = await asyncio.to_thread(engine, build.component)
        finally:
            self._rest()
        self._compute()
        thread = threading.Thread(target=self._work, args=(made, json.dumps(start)), name="python", daemon=True)
        thread.start()
        try:
            while True:
                name, args = await self._asked
                self._asked = self._loop.create_future()
                self._rest()
                if name == "":
                    return self._status
                answer = await self._handle(name, args)
                self._answer = json.dumps(answer)
                self._compute()
                self._answered.release()
        except Over as over:
            return over.status
        finally:
            devices.close(self.process)
            collectives.leave(self.process)
            self._over = True
            self._rest()
            state(self.process).stop_timer()
            self._answered.release()

    def signal(self, name: str) -> None:
        """Take a signal that the program handles itself."""
        self.signals.append(name)
        if self._signalled is not None and not self._signalled.done():
            self._signalled.set_result(None)

    def _compute(self) -> None:
        """The program computes from now on."""
        self._since = self.process.machine.now()
        self._outside = self._loop.create_future()
        OUTSIDE.add(self._outside)

    def _rest(self) -> None:
        """It does not: note what it has used."""
        machine, now = self.process.machine, self.process.machine.now()
        machine.meter.note(now, max(now - self._since, 0.0))
        self._since = now
        self._give_up()

    def _give_up(self) -> None:
        if self._outside is not None and not self._outside.done():
            self._outside.set_result(None)
            OUTSIDE.discard(self._outside)

    async def _handle(self, name: str, args: str) -> dict[str, Any]:
        answer: dict[str, Any]
        try:
            answer = await self._call(name, arguments(name, args))
        except FileError as error:
            answer = _os_error(error.code, *([error.path] if error.path else []))
        except NetworkError as error:
            answer = _os_error(NETWORK_ERRORS.get(error.kind, "ENETUNREACH"))
        except GuestError as error:
            answer = {"error": [error.kind, error.values]}
        except BrokenPipe:
            answer = _os_error("EPIPE")
        except (ValueError, OverflowError) as error:  # numbers and characters that the machine cannot hold
            kind = "OverflowError" if isinstance(error, OverflowError) else "ValueError"
            answer = {"error": [kind, [str(error)]]}
        if self.signals:
            answer["signals"], self.signals = self.signals, []
        return answer

    async def _call(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Let the handler of a call answer; a signal interrupts one that blocks."""
        handler = HANDLERS[name]
        if name not in BLOCKING:
            return {"ok": await handler(self.process, **args)}
        if self.signals:
            return {"again": True}
        self._signalled = self._loop.create_future()
        task = asyncio.ensure_future(handler(self.process, **args))
        try:
            await asyncio.wait({task, self._signalled}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._signalled = None
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        return {"again": True} if task.cancelled() else {"ok": task.result()}

    def _work(self, made: Engine, start: str) -> None:
        """Be the program's thread."""
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        self._counted = time.thread_time()
        try:
            self._status = made.run(self, start, self._memory)
        except Ended:
            pass  # the status stays that of a crash
        finally:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._take, "", "")

    def _take(self, name: str, args: str) -> None:
        if not self._asked.done():
            self._asked.set_result((name, args))

    def host(self, name: str, args: str) -> str:
        """Ask the process, and wait."""
        self._spend()
        self._used = 0.0
        try:
            self._loop.call_soon_threadsafe(self._take, name, args)
        except RuntimeError as error:
            raise Ended("the loop is closed") from error
        self._answered.acquire()
        if self._over:
            raise Ended("the process is over")
        return self._answer

    def now(self) -> float:
        """Return the machine's time."""
        return self.process.machine.now()

    def _spend(self) -> None:
        """Count what this thread has computed; the counters of all threads are guarded by the interpreter's lock."""
        before, self._counted = self._counted, time.thread_time()
        self._used += self._counted - before
        self._total += self._counted - before
        self.process.machine.computing.spend(time.perf_counter(), self._counted - before)

    def tick(self) -> bool:
        """Count computing, and wait where the container has had its share; False once the process is over."""
        before = self._used
        self._spend()
        if before < ENDLESS_S <= self._used:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._give_up)
        while not self._over and (wait := self.process.machine.computing.wait(time.perf_counter())) > 0:
            time.sleep(min(wait, MAX_PAUSE_S))
        return not self._over
