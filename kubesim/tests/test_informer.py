"""Caches and work queues."""

from collections import Counter

from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.informer import Informer, WorkQueue
from kubesim.tests.world import container, pod, world


async def test_a_cache_follows_the_api_and_tells_its_handlers():
    async with world() as w:
        seen = []
        cache = Informer(w.client, w.clock, "configmaps")
        await cache.start()
        cache.add_handler(lambda old, new: seen.append((bool(old), bool(new))))
        seen.clear()
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        await w.create("configmaps", obj)
        await w.client.patch("configmaps", "a", "default", {"data": {"x": "2"}})
        await w.tick(0)
        assert cache.get("default", "a")["data"] == {"x": "2"}
        await w.client.delete("configmaps", "a", "default")
        await w.tick(0)
        await cache.stop()
    assert seen == [(False, True), (True, True), (True, False)]
    assert cache.get("default", "a") is None


async def test_an_index_finds_by_value_and_forgets():
    async with world() as w:
        cache = Informer(w.client, w.clock, "pods")
        cache.add_index("node", lambda obj: [obj["spec"].get("nodeName", "")])
        await cache.start()
        await w.create("pods", pod("a", container("busybox:1.36", "sleep", "60"), nodeName=w.node_names[0]))
        assert [obj["metadata"]["name"] for obj in cache.by("node", w.node_names[0])] == ["a"]
        await w.client.delete("pods", "a", "default", grace_seconds=0)
        await w.tick(1)
        assert cache.by("node", w.node_names[0]) == []
        await cache.stop()


async def test_our_own_write_is_in_the_cache_at_once():
    async with world() as w:
        cache = Informer(w.client, w.clock, "configmaps")
        await cache.start()
        meta = {"name": "a", "namespace": "default"}
        await cache.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        assert cache.get("default", "a") is not None
        await cache.stop()


async def test_a_queue_runs_a_key_once_however_often_it_is_added():
    clock, ran = ManualClock(), Counter()

    async def sync(key):
        ran[key] += 1

    queue = WorkQueue(clock, sync, "test")
    for _ in range(3):
        queue.add("a")
    queue.start()
    await clock.advance(0)
    await queue.stop()
    assert ran == {"a": 1}


async def test_a_queue_retries_with_growing_delays():
    clock, times = ManualClock(), []
    start = clock.now()

    async def sync(key):
        times.append(round((clock.now() - start).total_seconds(), 3))
        if len(times) < 5:
            raise ApiError(409, "Conflict", "again")

    queue = WorkQueue(clock, sync, "test")
    queue.add("a")
    queue.start()
    await clock.advance(10)
    await queue.stop()
    assert times == [0.0, 0.005, 0.015, 0.035, 0.075]


async def test_of_two_delays_the_shorter_stands():
    clock, times = ManualClock(), []
    start = clock.now()

    async def sync(key):
        times.append((clock.now() - start).total_seconds())

    queue = WorkQueue(clock, sync, "test")
    queue.start()
    queue.add_after("a", 30)
    queue.add_after("a", 5)
    queue.add_after("a", 10)
    await clock.advance(60)
    await queue.stop()
    assert times == [5.0]


async def test_what_is_put_off_comes_later_and_what_changes_meanwhile_at_once():
    clock, times = ManualClock(), []
    start = clock.now()

    async def sync(key):
        times.append((key, (clock.now() - start).total_seconds()))

    queue = WorkQueue(clock, sync, "test")
    for key in "abc":
        queue.add(key)
    queue.put_off(5.0)
    queue.start()
    await clock.advance(1)
    queue.add("b")
    await clock.advance(10)
    await queue.stop()
    assert times == [("b", 1.0), ("a", 5.0), ("b", 5.01), ("c", 5.02)]


async def test_an_idle_cluster_only_beats(caplog):
    async with world() as w:
        await w.tick(60)
        before = w.store.resource_version
        await w.tick(60)
        assert w.store.resource_version - before == 3 * 6  # each of three leases every ten seconds
    assert not caplog.records


class Forgetful:
    """A client whose server has forgotten the version from which a watch is to go on, so many times."""

    def __init__(self, client, times):
        self._client = client
        self._left = times
        self.lists = 0

    async def list(self, resource, namespace="", **options):
        self.lists += 1
        return await self._client.list(resource, namespace, **options)

    async def watch(self, resource, namespace="", **options):
        if self._left:
            self._left -= 1
            raise ApiError(410, "Expired", "too old resource version: 1 (2)")
        async for event in self._client.watch(resource, namespace, **options):
            yield event


async def test_a_cache_whose_version_is_gone_lists_anew_at_once():
    async with world() as w:
        client = Forgetful(w.client, times=2)
        cache = Informer(client, w.clock, "configmaps")
        await cache.start()
        await w.tick(0)
        assert client.lists == 3
        await w.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        await w.tick(0)
        assert cache.get("default", "a") is not None
        await cache.stop()
