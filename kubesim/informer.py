"""List+watch caches and keyed work queues: the two tools that controllers, scheduler and kubelets are built of.

An ``Informer`` mirrors one resource over the seam; ``Informers`` shares one informer per resource. A ``WorkQueue``
runs one coroutine per key, never twice at once for the same key, and retries with a back-off on the injected clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Protocol

from kubesim.client import Client, PatchBody, PatchType, WatchEvent
from kubesim.clock import Clock, Timer
from kubesim.current_unit import CURRENT
from kubesim.errors import ApiError, Obj, tolerating

log = logging.getLogger(__name__)
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading an object of an unexpected shape raises."""

Key = tuple[str, str]
Handler = Callable[[Obj | None, Obj | None], None]
Indexer = Callable[[Obj], Iterable[str]]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""The waits before the API is asked again: doubling as long as it fails."""
GONE = 410
FIRST_RETRY_S = 0.005
APART_S = 0.01
"""Between keys that have time."""
LONGEST_RETRY_S = 1000.0


def key_of(obj: Obj) -> Key:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def version_of(obj: Obj) -> int:
    """Return the resourceVersion as a number, which upstream has allowed clients to compare since 1.35."""
    return int(obj["metadata"].get("resourceVersion") or 0)


class Informer:
    """A cache of one resource that calls its handlers with (old, new) for every change; either may be None."""

    def __init__(self, client: Client, clock: Clock, resource: str, field_selector: str = "") -> None:
        self.resource = resource
        self._selector = field_selector
        self._pause_s = FIRST_PAUSE_S
        self._client = client
        self._clock = clock
        self._items: dict[Key, Obj] = {}
        self._handlers: list[Handler] = []
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._version = ""

    def get(self, namespace: str, name: str) -> Obj | None:
        """Return the cached object, or None."""
        return self._items.get((namespace, name))

    def found(self, namespace: str, name: str) -> Obj:
        """Return the cached object. Raises ``ApiError`` 404 as the API would."""
        obj = self.get(namespace, name)
        if obj is None:
            raise ApiError(404, "NotFound", f'{self.resource} "{name}" not found')
        return obj

    def items(self) -> list[Obj]:
        """Return every cached object."""
        return list(self._items.values())

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Keep an index: ``indexer`` names the values under which an object is found."""
        if name in self._indexers:
            return
        self._indexers[name] = indexer
        self._indexes[name] = {}
        for key, obj in self._items.items():
            self._enter(name, key, indexer(obj))

    def by(self, index: str, value: str) -> list[Obj]:
        """Return the objects under one value of an index."""
        return [self._items[key] for key in self._indexes[index].get(value, ())]

    def count(self, index: str, value: str) -> int:
        """Return how many objects are under one value of an index."""
        return len(self._indexes[index].get(value, ()))

    def add_handler(self, handler: Handler) -> None:
        """Call ``handler`` for everything already cached and for every later change."""
        self._handlers.append(handler)
        for obj in self.items():
            handler(None, obj)

    # What is written through the cache is in it at once: nobody acts on one that is older than our own writes.

    async def create(self, obj: Obj) -> Obj:
        """Create an object. Raises ``ApiError``."""
        made = await self._client.create(self.resource, obj, namespace=obj["metadata"].get("namespace", ""))
        return self._note(made, created=True)

    async def update(self, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace an object or its status. Raises ``ApiError``."""
        return self._note(await self._client.update(self.resource, obj, subresource=subresource))

    async def patch(
        self, obj: Obj, patch: PatchBody, *, patch_type: PatchType = "merge", subresource: str = ""
    ) -> Obj:
        """Change some fields of the object of this name. Raises ``ApiError``."""
        key = key_of(obj)
        answer = await self._client.patch(
            self.resource, key[1], key[0], patch, patch_type=patch_type, subresource=subresource
        )
        return self._note(answer)

    async def delete(self, obj: Obj, propagation: str = "Background", grace_seconds: int | None = None) -> bool:
        """Delete this very object unless it is gone already; tells whether it was there. Raises ``ApiError``."""
        meta = obj["metadata"]
        with tolerating(404, 409):
            await self._client.delete(
                self.resource,
                meta["name"],
                meta.get("namespace", ""),
                grace_seconds=grace_seconds,
                uid=meta["uid"],
                propagation=propagation,
            )
            return True
        return False

    def _note(self, obj: Obj, *, created: bool = False) -> Obj:
        """Take in an answer. Only what we have ``created`` may be new: any other unknown object is gone already."""
        key = key_of(obj)
        old = self._items.get(key)
        if created if old is None else version_of(old) < version_of(obj):
            self._put(key, old, obj)
        return obj

    async def start(self) -> None:
        """List once, then keep watching in a task of its own."""
        if self._task is None:
            await self._list()
            self._task = asyncio.create_task(self._run(), name=f"informer {self.resource}")

    async def stop(self) -> None:
        """End the watch."""
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            began = self._clock.now()
            try:
                await self._watch()
            except ConnectionError as error:
                log.info("watch of %s ended: %s", self.resource, error)
            except ApiError as error:
                log.info("watch of %s ended: %s", self.resource, error)
                await self._relist(at_once=error.code == GONE)
                continue
            if (self._clock.now() - began).total_seconds() < self._pause_s:
                await self._pause()

    async def _relist(self, *, at_once: bool) -> None:
        while True:
            if not at_once:
                await self._pause()
            at_once = False
            try:
                await self._list()
            except (ApiError, ConnectionError) as error:
                log.info("list of %s failed: %s", self.resource, error)
            else:
                return

    async def _pause(self) -> None:
        """Wait before the API is asked again, each time longer until something has come."""
        pause, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        await self._clock.sleep(pause)

    async def _watch(self) -> None:
        events = self._client.watch(self.resource, resource_version=self._version, field_selector=self._selector)
        async with aclosing(events):
            async for event in events:
                if event.type == "ERROR":
                    raise ApiError(event.object.get("code", GONE), "Expired", event.object.get("message", ""))
                self._pause_s = FIRST_PAUSE_S
                self._version = event.object["metadata"]["resourceVersion"]
                self._take(event)

    def _take(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            return
        key = key_of(event.object)
        old = self._items.get(key)
        if event.type == "DELETED":
            self._drop(key, old)
        elif old is None or version_of(old) < version_of(event.object):
            self._put(key, old, event.object)

    async def _list(self) -> None:
        answer = await self._client.list(self.resource, field_selector=self._selector)
        self._version = answer.resource_version
        fresh = {key_of(obj): obj for obj in answer.items}
        for key in [key for key in self._items if key not in fresh]:
            self._drop(key, self._items[key])
        for key, obj in fresh.items():
            old = self._items.get(key)
            if old is None or version_of(old) < version_of(obj):
                self._put(key, old, obj)

    def _put(self, key: Key, old: Obj | None, obj: Obj) -> None:
        self._items[key] = obj
        for name, indexer in self._indexers.items():
            before, after = indexer(old) if old is not None else (), indexer(obj)
            if before != after:
                self._leave(name, key, before)
                self._enter(name, key, after)
        self._tell(old, obj)

    def _drop(self, key: Key, old: Obj | None) -> None:
        if old is None:
            return
        del self._items[key]
        for name, indexer in self._indexers.items():
            self._leave(name, key, indexer(old))
        self._tell(old, None)

    def _enter(self, name: str, key: Key, values: Iterable[str]) -> None:
        for value in values:
            self._indexes[name].setdefault(value, {})[key] = None

    def _leave(self, name: str, key: Key, values: Iterable[str]) -> None:
        index = self._indexes[name]
        for value in values:
            bucket = index.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del index[value]

    def _tell(self, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            handler(old, new)


class Informers:
    """One informer per resource, shared by all who ask."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._informers: dict[str, Informer] = {}

    def __getitem__(self, resource: str) -> Informer:
        """Return the informer of ``resource``; it is made on the first call and runs after ``start``."""
        if resource not in self._informers:
            self._informers[resource] = Informer(self._client, self._clock, resource)
        return self._informers[resource]

    async def start(self) -> None:
        """Fill every cache, then watch."""
        for informer in list(self._informers.values()):
            await informer.start()

    async def drop(self, resource: str) -> None:
        """Forget a resource that is served no longer."""
        informer = self._informers.pop(resource, None)
        if informer is not None:
            await informer.stop()

    async def stop(self) -> None:
        """End every watch."""
        for informer in self._informers.values():
            await informer.stop()


class Line(Protocol):
    """Keys that wait for their turn."""

    def append(self, key: str, /) -> None:
        """Take one in."""

    def popleft(self) -> str:
        """Let the first one go."""

    def __len__(self) -> int:
        """Return how many there are."""


class WorkQueue:
    """Runs ``sync(key)`` for every key added: a key waits once however often it is added."""

    def __init__(
        self,
        clock: Clock,
        sync: Callable[[str], Awaitable[None]],
        name: str,
        workers: int = 1,
        retry_s: float = FIRST_RETRY_S,
        ready: Line | None = None,
        resource: str = "",
    ) -> None:
        """``resource``: of the objects whose namespace and name the keys are."""
        self._clock = clock
        self._sync = sync
        self._name = name
        self._resource = resource or name
        self._workers = workers
        self._retry_s = retry_s
        self._ready: Line = deque() if ready is None else ready
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._again: set[str] = set()
        self._timers: dict[str, tuple[float, Timer]] = {}
        self._failures: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to work; keys added before are not lost."""
        self._tasks = [asyncio.create_task(self._work(), name=self._name) for _ in range(self._workers)]

    def put_off(self, seconds: float) -> None:
        """Let the keys that wait come later, one after the other: their objects are known to be as they should."""
        for number in range(len(self._ready)):
            key = self._ready.popleft()
            self._waiting.discard(key)
            self.add_after(key, seconds + number * APART_S)

    async def stop(self) -> None:
        """Stop working and drop what waits."""
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            await cancel(task)
        self._tasks = []

    def add(self, key: str) -> None:
        """Run ``key`` soon, or once more if it is running now."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: str, seconds: float) -> None:
        """Run ``key`` in ``seconds``; of two delays for one key the shorter one stands."""
        due = self._clock.now().timestamp() + seconds
        held = self._timers.get(key)
        if held is not None:
            if held[0] <= due:
                return
            held[1].cancel()
        self._timers[key] = (due, self._clock.call_later(seconds, lambda: self._due(key)))

    def _due(self, key: str) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._wake.clear()
                await self._wake.wait()
            await self._run(self._ready.popleft())
            # In one process no call of the API suspends: let the caches see what was written before the next key.
            await asyncio.sleep(0)

    async def _run(self, key: str) -> None:
        self._waiting.discard(key)
        self._running.add(key)
        CURRENT.set((self._resource, key))
        try:
            await self._sync(key)
        except (ApiError, ConnectionError) as error:
            log.debug("%s: %s: %s", self._name, key, error)
            self._retry(key)
        except MALFORMED:
            # One malformed object must not end the work on all the others.
            log.exception("%s could not handle %s", self._name, key)
            self._retry(key)
        else:
            self._failures.pop(key, None)
        finally:
            self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _retry(self, key: str) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(self._retry_s * 2 ** min(failures, 30), LONGEST_RETRY_S))


async def cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task of ours and wait until it is gone."""
    if task is None:
        return
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
