"""The eviction managers of the nodes of one process, and the one queue in which they look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial

from kubesim.api.quantity import parse
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.informer import WorkQueue
from kubesim.kubelet.eviction import Pressure
from kubesim.kubelet.host import Node
from kubesim.kubelet.pod import PodWorker

Workers = Callable[[str], Collection[PodWorker]]
Report = Callable[[str], Awaitable[None]]


class Watches:
    """Those of some nodes. ``workers`` returns the pods of a node; ``report`` brings its conditions up to date.

    ``down_for`` returns for how many seconds its machine is off.
    """

    def __init__(self, clock: Clock, workers: Workers, report: Report, down_for: Callable[[str], float]) -> None:
        self._clock = clock
        self._down_for = down_for
        self._workers = workers
        self._report = report
        self._nodes: dict[str, Pressure] = {}
        self._queue = WorkQueue(clock, self._sync, "eviction")

    def take(self, node: Node, obj: Obj) -> None:
        """Watch a node, whose object in the API is ``obj``."""
        status, name = obj.get("status", {}), node.name
        if "ephemeral-storage" in node.capacity:
            node.disk.room.limit = int(parse(node.capacity["ephemeral-storage"]))
        found = Pressure(
            node,
            self._clock,
            partial(self._workers, name),
            partial(self._report, name),
            partial(self._queue.add_after, name),
            int(parse(str((status.get("allocatable") or {}).get("memory", 0)))),
        )
        node.disk.room.count = found.count
        node.watch = self._nodes[name] = found
        found.resume(status.get("conditions") or ())

    def leave(self, name: str) -> None:
        """Watch a node no more."""
        self._nodes.pop(name, None)

    def of(self, name: str) -> Pressure:
        """Return the manager of a node. Raises KeyError for one that is not ours."""
        return self._nodes[name]

    def start(self) -> None:
        """Begin to look."""
        self._queue.start()

    async def stop(self) -> None:
        """Look no more."""
        await self._queue.stop()

    async def _sync(self, name: str) -> None:
        found, off = self._nodes.get(name), self._down_for(name)
        again = off or (await found.sync() if found is not None else None)
        if again is not None:
            self._queue.add_after(name, again)
