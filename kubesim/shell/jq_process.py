"""Filters of jq, run by libjq in a confined process: see ``jq_worker``."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from kubesim.shell.jq_worker import MAX_CPU_S
from kubesim.shell.machine import Process

WORKER = Path(__file__).with_name("jq_worker.py")
MAX_OUTPUT = 16 << 20
Event = list[Any]


def worker_command() -> list[str]:
    """Return how the worker is started: without the host's packages, but for the folder of jq."""
    spec = importlib.util.find_spec("jq")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path()
    return [sys.executable, "-I", "-S", str(WORKER), str(folder)]


async def run_filter(process: Process, request: dict[str, Any]) -> AsyncGenerator[Event, None]:
    """Yield the worker's events; the last is ``["killed"]`` where it met its limits.

    A task reads them ahead, so that no worker waits for whoever reads the output: that may be another jq.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    reading = asyncio.create_task(_collect(process, request, events))
    try:
        while (event := await events.get()) is not None:
            yield event
        await reading
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _collect(process: Process, request: dict[str, Any], events: asyncio.Queue[Event | None]) -> None:
    """Run a worker, of which a cluster has only so many at a time; its computing counts as the container's own."""
    used = float(MAX_CPU_S)
    try:
        async with process.machine.share.workers:
            child = await asyncio.create_subprocess_exec(
                *worker_command(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={},
                limit=MAX_OUTPUT,
            )
            try:
                async for event in _talk(child, request):
                    if event[0] == "used":
                        used = event[1]
                    else:
                        events.put_nowait(event)
            except asyncio.CancelledError:
                child.kill()  # not where it has ended by itself: asyncio would miss its status
                raise
            finally:
                await child.wait()
    finally:
        process.machine.computing.spend(time.perf_counter(), used)
        if used == MAX_CPU_S:
            events.put_nowait(["killed"])
        events.put_nowait(None)


async def _talk(child: asyncio.subprocess.Process, request: dict[str, Any]) -> AsyncGenerator[Event, None]:
    if child.stdin is None or child.stdout is None:
        return
    with contextlib.suppress(ConnectionError):
        child.stdin.write(json.dumps(request).encode())
        await child.stdin.drain()
        child.stdin.close()
    left = MAX_OUTPUT
    try:
        while line := await child.stdout.readline():
            left -= len(line)
            if left < 0:
                raise ValueError("too much output")
            event: Event = json.loads(line)
            yield event
    except ValueError:  # also: a line longer than MAX_OUTPUT, or cut off when the worker was killed
        child.kill()
