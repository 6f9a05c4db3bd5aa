"""Container logs, as the kubelet serves them: generated from the program and the clock when somebody reads."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import TypedDict

from kubesim.clock import Clock
from kubesim.errors import ApiError
from kubesim.kubelet.logfile import Entry, stamped
from kubesim.kubelet.pod import PodWorker
from kubesim.kubelet.programs import Line
from kubesim.kubelet.records import Container, Instance
from kubesim.times import nano

FOLLOW_S = 0.25
API_TIME_S = 1.0
"""Times that were rebuilt from the API are whole seconds."""
NOTHING_YET = {
    "pullFailed": "image can't be pulled",
    "pullWaiting": "trying and failing to pull image",
    "configError": "CreateContainerConfigError",
}


class LogArguments(TypedDict, total=False):
    """PodLogOptions, without what only follows: seconds since, or a time since, and limits in lines and bytes."""

    previous: bool
    tail_lines: int | None
    since_seconds: int | None
    since_time: datetime | None
    timestamps: bool
    limit_bytes: int | None


def read(worker: PodWorker, name: str, options: LogArguments, now: datetime) -> bytes:
    """Return the log of a container; raises ``ApiError`` 400 with the kubelet's text where there is none."""
    container, instance = _chosen(worker, name, options.get("previous", False))
    text = "".join(_render(entry, options) for entry in _selected(worker, container, instance, options, now))
    data = text.encode()
    return data[: options.get("limit_bytes")]


async def follow(
    worker: PodWorker, name: str, options: LogArguments, clock: Clock, alive: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield what ``read`` returns, then every later line as it is printed, until the process ends or the pod goes."""
    container, instance = _chosen(worker, name, options.get("previous", False))
    upto, seen = clock.now(), instance.log.end if instance.log is not None else 0
    data = read(worker, name, options, upto)
    if data:
        yield data
    while True:
        over = instance.finished_at is not None or not alive()
        if instance.log is not None:
            fresh = iter(instance.log.since(seen))
            seen = instance.log.end
        else:
            since, upto = upto, clock.now()
            fresh = (entry for entry in _entries(worker, container, instance, upto) if since < entry.at)
        data = "".join(_render(entry, options) for entry in fresh).encode()
        if data:
            yield data
        if over:
            return
        await clock.sleep(FOLLOW_S)


def _chosen(worker: PodWorker, name: str, previous: bool) -> tuple[Container, Instance]:
    pod = worker.record.name
    container = next((c for c in worker.record.containers if c.name == name), None)
    if container is None:
        raise ApiError(400, "BadRequest", f"container {name} is not valid for pod {pod}")
    if previous:
        instance = container.instance if container.state == "crashLoop" else container.previous
        if instance is None:
            raise ApiError(400, "BadRequest", f'previous terminated container "{name}" in pod "{pod}" not found')
    else:
        instance = container.instance
    if instance is None:
        why = NOTHING_YET.get(container.state) or container.refusal or _not_started(worker)
        raise ApiError(400, "BadRequest", f'container "{name}" in pod "{pod}" is waiting to start: {why}')
    return container, instance


def _not_started(worker: PodWorker) -> str:
    return "ContainerCreating" if worker.record.initialized else "PodInitializing"


def _selected(
    worker: PodWorker, container: Container, instance: Instance, options: LogArguments, now: datetime
) -> Iterator[Entry]:
    since = options.get("since_time")
    if (seconds := options.get("since_seconds")) is not None:
        since = now - timedelta(seconds=seconds)
    entries = _entries(worker, container, instance, now)
    if since is not None:
        entries = (entry for entry in entries if entry.at >= since)
    if (lines := options.get("tail_lines")) is not None:
        return iter(deque(entries, maxlen=max(lines, 0)))
    return entries


def _entries(worker: PodWorker, container: Container, instance: Instance, now: datetime) -> Iterator[Entry]:
    if instance.reason == "StartError":
        return
    if instance.log is not None:
        yield from instance.log.since(0)
        return
    program = worker.program(container, instance)
    # A line printed in the very moment of the end is part of the log; times lose what is below a microsecond.
    until = ((instance.finished_at or now) - instance.started_at).total_seconds() + 1e-5
    if (
        instance.finished_at is not None
        and program.ending is not None
        and abs(program.ending.at - until) <= API_TIME_S
    ):
        until = max(until, program.ending.at)
    for line in program.lines(until):
        at = _moment(instance, line)
        yield Entry(at, stamped(line.text, at) if program.stamped else line.text, line.stream)


def _moment(instance: Instance, line: Line) -> datetime:
    return instance.started_at + timedelta(seconds=line.at)


def _render(entry: Entry, options: LogArguments) -> str:
    return f"{nano(entry.at)} {entry.text}{entry.end}" if options.get("timestamps") else f"{entry.text}{entry.end}"


async def limited(pieces: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    """Yield pieces until so many bytes have passed."""
    left = limit
    async for piece in pieces:
        yield piece if left is None else piece[:left]
        left = None if left is None else left - len(piece)
        if left is not None and left <= 0:
            return
