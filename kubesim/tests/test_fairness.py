"""One user's greed is that user's trouble: rations of requests, bytes, streams and space."""

from __future__ import annotations

import pytest

from kubesim.api import fairness as rations
from kubesim.api import streams as watching
from kubesim.api.fairness import BURST, BYTES_PER_REQUEST, MAX_STREAMS, RATE, Fairness
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.api.streams import Watch, WatchOptions
from kubesim.auth.users import ADMIN, User
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.store import HISTORY_BYTES, Store
from kubesim.tests.live import serving

GREEDY, OTHER = User("system:serviceaccount:ml:greedy"), User("system:serviceaccount:ml:other")
MAPS = registry.by_resource("configmaps")


def config_map(name, size=10):
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"a": "x" * size}}


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def fairness(clock):
    return Fairness(clock)


def spend(fairness, user):
    for _ in range(int(BURST)):
        fairness.admit(user)


async def test_who_has_asked_too_much_is_told_to_wait_a_second(fairness, clock):
    spend(fairness, GREEDY)
    with pytest.raises(ApiError, match="Too many requests, please try again later") as caught:
        fairness.admit(GREEDY)
    assert (caught.value.code, caught.value.details) == (429, {"retryAfterSeconds": 1})
    fairness.admit(OTHER)
    await clock.advance(1)
    for _ in range(int(RATE)):
        fairness.admit(GREEDY)


def test_long_answers_count_as_several_requests(fairness):
    assert fairness.charge(GREEDY, BYTES_PER_REQUEST * 100) == 0
    assert 0 < fairness.charge(GREEDY, BYTES_PER_REQUEST * 10_000) <= 1
    with pytest.raises(ApiError, match="Too many requests"):
        fairness.admit(GREEDY)


def test_streams_are_counted_while_they_are_open(fairness):
    held = [fairness.stream(GREEDY) for _ in range(MAX_STREAMS)]
    for stream in held:
        stream.__enter__()
    with pytest.raises(ApiError, match="Too many watches"), fairness.stream(GREEDY):
        pass
    with fairness.stream(OTHER):
        held[0].__exit__(None, None, None)
    with fairness.stream(GREEDY):
        pass


def test_administrators_are_not_rationed(fairness):
    spend(fairness, ADMIN)
    fairness.admit(ADMIN)
    assert fairness.charge(ADMIN, 1 << 40) == 0


@pytest.fixture
def full(clock, monkeypatch):
    """A cluster without any space left."""
    monkeypatch.setattr("kubesim.api.operations.SPACE", 2000)
    store = Store(clock)
    operations = Operations(store, clock)
    namespaces = registry.by_resource("namespaces")
    operations.create(namespaces, "", {"metadata": {"name": "default"}}, options=Options(user="system:apiserver"))
    operations.create(MAPS, "default", config_map("big", 3000), options=Options(requester=ADMIN))
    return operations


@pytest.mark.parametrize("options", [Options(requester=GREEDY), Options(user="deployment-controller")])
def test_a_full_cluster_takes_nothing_more_from_users_and_controllers(full, options):
    with pytest.raises(ApiError, match="etcdserver: mvcc: database space exceeded"):
        full.create(MAPS, "default", config_map("more"), options=options)


def test_in_a_full_cluster_things_can_be_deleted_and_mended(full):
    with pytest.raises(ApiError, match="space exceeded"):
        full.patch(MAPS, "default", "big", {"data": {"b": "y"}}, options=Options(requester=GREEDY))
    full.create(MAPS, "default", config_map("by-the-admin"), options=Options(requester=ADMIN))
    full.delete(MAPS, "default", "big", options=Options(requester=GREEDY))
    full.delete(MAPS, "default", "by-the-admin", options=Options(requester=GREEDY))
    assert full.create(MAPS, "default", config_map("small"), options=Options(requester=GREEDY))


def test_a_cluster_of_more_nodes_has_more_room(full, monkeypatch):
    nodes = full.registry.by_resource("nodes")
    monkeypatch.setattr("kubesim.api.operations.SPACE_PER_NODE", 10_000)
    full.create(nodes, "", {"metadata": {"name": "n1"}}, options=Options(requester=ADMIN))
    assert full.create(MAPS, "default", config_map("one-more"), options=Options(requester=GREEDY))


def test_the_store_knows_its_size(clock):
    store = Store(clock)
    store.create(MAPS, config_map("a", 1000))
    before = store.size
    assert before > 1000
    store.update(MAPS, config_map("a", 3000))
    assert 1900 < store.size - before < 2100
    copy = Store(clock)
    copy.load(store.dump(), lambda objects: {MAPS.table: MAPS})
    assert copy.size == store.size
    store.delete(MAPS, "default", "a")
    assert store.size == 0


def test_history_is_bounded_in_bytes_too(clock):
    store = Store(clock)
    store.create(MAPS, config_map("a"))
    first = store.resource_version
    for _ in range(HISTORY_BYTES // 1_000_000 + 2):
        store.update(MAPS, config_map("a", 1_000_000))
    with pytest.raises(ApiError, match="too old resource version"):
        store.events_since(first)


def watch_of(store, aborted):
    options = WatchOptions(MAPS, "default", lambda obj: True, lambda obj: obj.raw)
    return Watch(store, options, lambda: aborted.append(True))


async def test_a_long_beginning_comes_in_chunks_and_nothing_gets_lost(clock, monkeypatch):
    monkeypatch.setattr(watching, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(watching, "MAX_PENDING", 20)
    store, aborted = Store(clock), []
    for number in range(100):
        store.create(MAPS, config_map(f"m{number:03}", 300))
    watch = watch_of(store, aborted)
    watch.open()
    chunks = [await watch.next_chunk(1)]
    store.create(MAPS, config_map("later"))
    while b'"later"' not in chunks[-1]:
        chunks.append(await watch.next_chunk(1))
    assert max(map(len, chunks)) < 2600
    assert b"".join(chunks).count(b'"ADDED"') == 101
    assert aborted == []
    watch.close()


def test_a_client_that_does_not_read_is_cut_off_by_bytes_too(clock):
    store, aborted = Store(clock), []
    watch = watch_of(store, aborted)
    watch.open()
    for number in range(20):
        store.create(MAPS, config_map(f"m{number}", 1_000_000))
    assert aborted == [True]


async def test_over_http_the_greedy_are_refused_and_the_others_served(tmp_path, monkeypatch):
    monkeypatch.setattr(rations, "BURST", 5.0)
    monkeypatch.setattr(rations, "RATE", 0.001)
    with serving(tmp_path, nodes=1) as live:
        async with live.client() as admin:
            token = "/api/v1/namespaces/default/serviceaccounts/default/token"
            async with admin.post(token, json={"spec": {}}) as answer:
                mine = (await answer.json())["status"]["token"]
            async with live.client(mine) as client:
                codes = []
                while 429 not in codes and len(codes) < 20:
                    async with client.get("/api/v1/pods") as answer:
                        codes.append(answer.status)
                        waits = answer.headers.get("Retry-After")
            assert (codes[0], codes[-1], waits) == (403, 429, "1")
            async with admin.get("/api/v1/pods") as answer:
                assert answer.status == 200
            assert live.ask(lambda cluster: cluster.guard.streams) == 0
