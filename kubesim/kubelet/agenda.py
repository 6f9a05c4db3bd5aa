"""The order in which the stages of a pod's containers run, and the pace at which a large pod is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from kubesim.kubelet.records import Container
from kubesim.kubelet.status import PodRecord

MAX_STAGES_AT_ONCE = 20
"""Stages of one pod after which other work of the cluster gets its turn."""
MAX_UNPACED_CONTAINERS = 50
REST_PER_CONTAINER_S = 0.002
"""The pace of a larger pod: every look at it, and every status of it, costs as much as it has containers."""


class Agenda:
    """The stages of one pod: ``due`` says when a container's is, ``run_stage`` runs it."""

    def __init__(
        self,
        record: PodRecord,
        due: Callable[[Container], datetime | None],
        run_stage: Callable[[Container], Awaitable[None]],
    ) -> None:
        self.not_before = record.bound_at
        self._record = record
        self._due = due
        self._run_stage = run_stage
        self._awaited: Container | None = None
        self._stages_run = 0

    def lets_begin(self, container: Container) -> bool:
        """Whether the init containers before a container are through."""
        return container.ephemeral or self._awaited is None or self._awaited is container

    async def run(self, now: datetime) -> datetime | None:
        """Run every stage that has come due, the earliest first; returns when the next one is, None for never.

        A stage may let others come due, as the last init container does: all are looked at again until none is.
        """
        size = len(self._record.containers)
        if size > MAX_UNPACED_CONTAINERS:
            self.not_before = now + timedelta(seconds=size * REST_PER_CONTAINER_S)
        while (heap := self._plan()) and heap[0][0] <= now:
            while heap and heap[0][0] <= now:
                await self._take(heap, now)
        return heap[0][0] if heap else None

    def _plan(self) -> list[tuple[datetime, int]]:
        """Return when each container's stage is due, with the container's place, as a heap."""
        self._awaited = self._record.awaited
        dues = ((self._due(container), place) for place, container in enumerate(self._record.containers))
        heap = [(due, place) for due, place in dues if due is not None]
        heapify(heap)
        return heap

    async def _take(self, heap: list[tuple[datetime, int]], now: datetime) -> None:
        """Run the earliest stage, unless another one has put it off since."""
        _, place = heappop(heap)
        container = self._record.containers[place]
        due = self._due(container)
        if due is None or due > now:
            return
        await self._run_stage(container)
        if container.init:
            self._awaited = self._record.awaited
        if (due := self._due(container)) is not None:
            heappush(heap, (due, place))
        self._stages_run += 1
        if self._stages_run % MAX_STAGES_AT_ONCE == 0:
            await asyncio.sleep(0)
