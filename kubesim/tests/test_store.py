"""The store: versions, indexes, history, subscribers, snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.store import HISTORY_S, RESTART_GAP, Store

PODS = registry.by_resource("pods")
NODES = registry.by_resource("nodes")


def pod(name, namespace="default", node="", **metadata):
    return {"metadata": {"name": name, "namespace": namespace, "uid": name, **metadata}, "spec": {"nodeName": node}}


def store(**options):
    return Store(ManualClock(), **options)


def names(objects):
    return [obj["metadata"]["name"] for obj in objects]


def test_every_change_has_a_higher_resource_version():
    memory = store()
    first = memory.create(PODS, pod("a"))
    second = memory.update(PODS, {**first, "spec": {"nodeName": "n1"}})
    last = memory.delete(PODS, "default", "a")
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, last)]
    assert versions == sorted(set(versions))
    assert versions[-1] == memory.resource_version


def test_it_keeps_a_copy_of_what_it_is_given():
    memory, mine = store(), pod("a")
    memory.create(PODS, mine)
    mine["spec"]["nodeName"] = "changed later"
    assert memory.get(PODS, "default", "a")["spec"]["nodeName"] == ""


def test_lists_are_ordered_by_namespace_and_name():
    memory = store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        memory.create(PODS, pod(name, namespace))
    assert names(memory.list(PODS)) == ["y", "z", "x"]
    assert names(memory.list(PODS, "b")) == ["x"]


def test_it_refuses_a_name_that_is_taken():
    memory = store()
    memory.create(PODS, pod("a"))
    with pytest.raises(ApiError, match='pods "a" already exists'):
        memory.create(PODS, pod("a"))


def test_the_node_index_follows_a_pod():
    memory = store()
    kept = memory.create(PODS, pod("a", node="n1"))
    assert names(memory.select(PODS, "spec.nodeName", "n1")) == ["a"]
    memory.update(PODS, {**kept, "spec": {"nodeName": "n2"}})
    assert memory.select(PODS, "spec.nodeName", "n1") == []
    assert names(memory.select(PODS, "spec.nodeName", "n2")) == ["a"]
    memory.delete(PODS, "default", "a")
    assert memory.select(PODS, "spec.nodeName", "n2") == []


def test_subscribers_hear_nested_changes_in_order():
    memory, heard = store(), []

    def echo(event):
        if event.type == "ADDED" and event.object["metadata"]["name"] == "a":
            memory.create(PODS, pod("b"))

    memory.subscribe(PODS, echo)
    stop = memory.subscribe(PODS, lambda event: heard.append(event.object["metadata"]["name"]))
    memory.create(PODS, pod("a"))
    stop()
    memory.create(PODS, pod("c"))
    assert heard == ["a", "b"]


def test_a_subscriber_of_one_kind_hears_nothing_of_another():
    memory, heard = store(), []
    memory.subscribe(NODES, heard.append)
    memory.create(PODS, pod("a"))
    assert heard == []


def test_a_version_older_than_the_history_is_expired():
    memory = store(history=2)
    for name in "abcd":
        memory.create(PODS, pod(name))
    with pytest.raises(ApiError, match=r"too old resource version: 1 \(3\)") as caught:
        memory.events_since(1)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert names(event.object for event in memory.events_since(3)) == ["c", "d"]


def test_events_are_found_again_and_changed_though_only_their_json_is_kept():
    memory, kind, seen = store(), registry.by_resource("events"), []
    memory.subscribe(kind, seen.append)
    event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"uid": "u"}, "count": 1}
    first = memory.create(kind, event)
    memory.update(kind, {**first, "count": 2})
    assert memory.get(kind, "default", "e")["count"] == 2
    assert [obj["count"] for obj in memory.select(kind, "involvedObject.uid", "u")] == [2]
    assert seen[1].previous == first
    memory.delete(kind, "default", "e")
    assert memory.list(kind) == memory.select(kind, "involvedObject.uid", "u") == []
    assert memory.size == 0


async def test_a_change_is_forgotten_after_ten_minutes():
    memory = store()
    memory.create(PODS, pod("a"))
    version = memory.resource_version
    await memory.clock.advance(HISTORY_S / 2)
    memory.create(PODS, pod("b"))
    await memory.clock.advance(HISTORY_S / 2 + 1)
    assert names(event.object for event in memory.events_since(version)) == ["b"]
    memory.create(PODS, pod("c"))
    assert names(event.object for event in memory.events_since(version)) == ["b", "c"]
    with pytest.raises(ApiError, match="too old resource version"):
        memory.events_since(version - 1)


def test_a_snapshot_brings_back_objects_and_indexes():
    memory = store()
    memory.create(PODS, pod("a", node="n1"))
    memory.create(NODES, {"metadata": {"name": "n1"}})
    restored = store()
    restored.load(memory.dump(), lambda objects: {kind.table: kind for kind in registry.stored()})
    assert names(restored.select(PODS, "spec.nodeName", "n1")) == ["a"]
    assert restored.list(NODES) == memory.list(NODES)
    assert restored.resource_version == memory.resource_version + RESTART_GAP
    with pytest.raises(ApiError, match="too old resource version"):
        restored.events_since(memory.resource_version)


CHANGES = st.lists(st.tuples(st.sampled_from(["create", "update", "delete"]), st.sampled_from("abcd")), max_size=60)


@settings(max_examples=100, deadline=None)
@given(changes=CHANGES, start=st.integers(0, 40))
def test_a_replayed_watch_equals_the_list(changes, start):
    memory, replica, version = store(), {}, 1
    for step, (verb, name) in enumerate(changes):
        if step == start:
            version = memory.resource_version
            replica = {obj["metadata"]["name"]: obj for obj in memory.list(PODS)}
        present = memory.get(PODS, "default", name) is not None
        if verb == "create" and not present:
            memory.create(PODS, pod(name))
        elif verb == "update" and present:
            memory.update(PODS, pod(name, node=str(step)))
        elif verb == "delete" and present:
            memory.delete(PODS, "default", name)
    versions = []
    for event in memory.events_since(version, PODS):
        versions.append(event.resource_version)
        replica[event.object["metadata"]["name"]] = event.object
        if event.type == "DELETED":
            del replica[event.object["metadata"]["name"]]
    assert versions == sorted(set(versions))
    assert [replica[name] for name in sorted(replica)] == memory.list(PODS)
