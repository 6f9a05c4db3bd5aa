"""Collections, watches and what goes with time."""

from __future__ import annotations

from kubesim.api import streams as watching
from kubesim.inprocess import InProcessClient
from kubesim.schema.kinds import registry
from kubesim.tests.operations import EVENTS, PODS, pod, refused


def test_a_secret_keeps_its_plain_data_encoded(ops):
    secrets = registry.by_resource("secrets")
    made = ops.create(secrets, "ml", {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert (made["type"], made["data"]) == ("Opaque", {"a": "Yg=="})
    assert "stringData" not in made


def test_a_collection_is_deleted_by_selector(ops):
    ops.create(PODS, "ml", pod("a"))
    ops.create(PODS, "ml", {**pod("b"), "metadata": {"name": "b"}})
    ops.delete_collection(PODS, "ml", label_selector="app=web")
    assert [obj["metadata"]["name"] for obj in ops.list(PODS, "ml").items] == ["b"]


async def test_a_watch_turns_changes_at_the_edge_of_its_selector_into_arrivals_and_departures(ops):
    client = InProcessClient(ops, ops.store)
    await client.create("pods", pod(), namespace="ml")
    version = (await client.list("pods")).resource_version
    for phase in ("Running", "Failed"):
        await client.patch("pods", "a", "ml", {"status": {"phase": phase}}, subresource="status")
    watch = client.watch("pods", field_selector="status.phase=Running", resource_version=version)
    assert [(await anext(watch)).type for _ in range(2)] == ["ADDED", "DELETED"]
    await watch.aclose()


async def test_a_watch_goes_on_with_what_happens_later(ops):
    client = InProcessClient(ops, ops.store)
    watch = client.watch("pods", "ml")
    await client.create("pods", pod(), namespace="ml")
    assert (await anext(watch)).type == "ADDED"
    await client.delete("pods", "a", "ml")
    assert [(await anext(watch)).type for _ in range(2)] == ["MODIFIED", "DELETED"]
    await watch.aclose()


async def test_events_go_an_hour_after_they_last_happened(ops, clock):
    about = {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "ml"}}
    ops.create(EVENTS, "ml", {"metadata": {"name": "old"}, **about})
    await clock.advance(1800)
    ops.create(EVENTS, "ml", {"metadata": {"name": "newer"}, **about})
    await clock.advance(1801)
    ops.create(EVENTS, "ml", {"metadata": {"name": "newest"}, **about})
    assert [obj["metadata"]["name"] for obj in ops.list(EVENTS, "ml").items] == ["newer", "newest"]


def test_a_subresource_that_a_kind_does_not_have_is_not_found(ops):
    maps = registry.by_resource("configmaps")
    ops.create(maps, "ml", {"metadata": {"name": "c"}})
    error = refused(ops.patch, maps, "ml", "c", {}, subresource="status")
    assert (error.code, error.message) == (404, "the server could not find the requested resource")


def test_what_waits_for_slow_clients_is_bounded_for_all_of_them_together(ops, monkeypatch):
    monkeypatch.setattr(watching, "MAX_WAITING_BYTES", 10_000)
    monkeypatch.setattr(watching, "FAIR_BYTES", 1_000)
    maps, late = registry.by_resource("configmaps"), []
    options = watching.WatchOptions(maps, "", lambda obj: True, lambda obj: obj.raw)
    watches = [watching.Watch(ops.store, options, lambda number=number: late.append(number)) for number in range(20)]
    for watch in watches:
        watch.open()
    for number in range(20):
        ops.create(maps, "ml", {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 500}})
        assert ops.store.waiting < 20_000 + 20 * 1_500
    assert sorted(late) == list(range(20))
    assert ops.store.waiting == 0
    for watch in watches:
        watch.close()
    assert ops.store.waiting == 0
