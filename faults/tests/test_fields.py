"""Before- and after-images: exactly the fields and list entries that a patch changes, both ways."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.engine import fields

TAINT_A = {"key": "a", "effect": "NoSchedule"}
TAINT_B = {"key": "b", "effect": "NoExecute", "value": "1"}
TAINT_C = {"key": "c", "effect": "NoSchedule"}
SIDECAR = {"name": "side", "image": "side:1"}


def obj(**spec):
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def container(**values):
    return {"name": "web", "image": "web:1", **values}


def env(*pairs):
    return [{"name": name, "value": value} for name, value in pairs]


def restored(images, live):
    return fields.merge(live, fields.restoring(images, live))


def essence(value):
    """Leave empty maps and lists out: whether they are written is the server's taste."""
    if isinstance(value, dict):
        inner = {key: essence(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in ({}, [])}
    return [essence(item) for item in value] if isinstance(value, list) else value


NAMES = st.sampled_from(["a", "b", "c", "d"])
ENV = st.dictionaries(NAMES, NAMES, max_size=3).map(lambda values: env(*values.items()))
CONTAINERS = st.lists(
    st.builds(lambda n, e, a: {"name": n, "env": e, "args": a}, NAMES, ENV, st.lists(NAMES, max_size=3)),
    max_size=3,
    unique_by=lambda c: c["name"],
)
TAINTS = st.lists(st.builds(lambda k, e: {"key": k, "effect": e}, NAMES, NAMES), max_size=4, unique_by=repr)
RULES = st.lists(st.builds(lambda v: {"verbs": v}, st.lists(NAMES, max_size=2)), max_size=4, unique_by=repr)
PORTS = st.lists(st.builds(lambda p: {"port": p, "protocol": "TCP"}, st.integers(1, 4)), max_size=3, unique_by=repr)
LABELS = st.dictionaries(NAMES, NAMES, max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "taints": TAINTS,
        "rules": RULES,
        "ports": PORTS,
        "selector": LABELS,
        "replicas": st.integers(0, 3),
        "finalizers": st.lists(NAMES, max_size=3, unique=True),
    },
)


@given(SPECS, SPECS)
@settings(max_examples=settings().max_examples // 2)
def test_every_difference_of_two_objects_can_be_written_and_given_back(one, two):
    before, after = obj(**one), obj(**two)
    images = fields.images(before, after)
    written = fields.merge(before, fields.injecting(images, before))
    assert essence(written) == essence(after)
    assert essence(restored(images, after)) == essence(before)
    assert essence(restored(images, written)) == essence(before)


@given(SPECS, SPECS, SPECS)
@settings(max_examples=settings().max_examples // 2)
def test_two_changes_can_be_taken_back_in_any_order(one, two, three):
    first, second, third = obj(**one), obj(**two), obj(**three)
    older = fields.images(first, second)
    second = fields.merge(first, fields.injecting(older, first))
    newer = fields.images(second, third)
    third = fields.merge(second, fields.injecting(newer, second))
    in_turn = restored(older, restored(newer, third))
    left, taken_over = fields.hand_on(older, newer)
    out_of_turn = restored(taken_over, restored(left, third))
    assert essence(in_turn) == essence(first)
    assert unordered(out_of_turn) == unordered(first)


def unordered(value):
    """Leave the order of entries open: it cannot always be told who stood in front of whom."""
    if isinstance(value, dict):
        inner = {key: unordered(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in ({}, [])}
    return sorted((unordered(item) for item in value), key=repr) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("before", "after", "live", "back"),
    [
        pytest.param(
            {"taints": [TAINT_A]},
            {"taints": [TAINT_A, TAINT_B]},
            {"taints": [TAINT_B, TAINT_C]},
            {"taints": [TAINT_C]},
            id="a taint that was added goes, and no other",
        ),
        pytest.param(
            {"taints": [TAINT_A, TAINT_B]},
            {"taints": [TAINT_B]},
            {"taints": [TAINT_B, TAINT_C]},
            {"taints": [TAINT_A, TAINT_B, TAINT_C]},
            id="a taint that was removed comes back to its place",
        ),
        pytest.param(
            {"containers": [container(env=env(("A", "1"), ("B", "1")))]},
            {"containers": [container(env=env(("A", "2"), ("B", "1")))]},
            {"containers": [SIDECAR, container(env=env(("A", "2"), ("B", "9")), image="web:2")]},
            {"containers": [SIDECAR, container(env=env(("A", "1"), ("B", "9")), image="web:2")]},
            id="an environment entry, wherever its container stands now",
        ),
        pytest.param(
            {"containers": [container(env=env(("A", "1")))]},
            {"containers": [container(env=env(("A", "2")))]},
            {"containers": [container(env=env(("A", "3")))]},
            {"containers": [container(env=env(("A", "3")))]},
            id="the candidate's value wins",
        ),
        pytest.param(
            {"containers": [container(), SIDECAR]},
            {"containers": [container()]},
            {"containers": [container(image="web:2")]},
            {"containers": [container(image="web:2"), SIDECAR]},
            id="a container that was removed",
        ),
        pytest.param(
            {"containers": [container(env=env(("A", "1")))]},
            {"containers": [container(env=[])]},
            {"containers": [SIDECAR]},
            {"containers": [SIDECAR]},
            id="no container is made anew for the sake of one of its fields",
        ),
        pytest.param(
            {"rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]},
            {"rules": [{"verbs": ["get"]}, {"verbs": ["watch"]}]},
            {"rules": [{"verbs": ["delete"]}, {"verbs": ["watch"]}, {"verbs": ["get"]}]},
            {"rules": [{"verbs": ["delete"]}, {"verbs": ["list"]}, {"verbs": ["get"]}]},
            id="a rule by its value",
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "TCP"}]},
            {"ports": [{"port": 81, "protocol": "TCP"}]},
            {"ports": [{"port": 82, "protocol": "TCP"}]},
            {"ports": [{"port": 82, "protocol": "TCP"}]},
            id="the only port gets no second one beside it",
        ),
        pytest.param(
            {"args": ["a", "b"]}, {"args": ["b", "a"]}, {"args": ["b", "a"]}, {"args": ["a", "b"]}, id="an order"
        ),
        pytest.param({}, {"taints": [TAINT_A]}, {"taints": [TAINT_A]}, {}, id="a list that the patch made"),
    ],
)
def test_a_list_gets_back_exactly_the_entry_that_was_changed(before, after, live, back):
    images = fields.images(obj(**before), obj(**after))
    assert restored(images, obj(**live)) == obj(**back)


def test_status_and_what_the_server_writes_are_no_fields():
    before = {**obj(a=1), "status": {"x": 1}}
    after = copy.deepcopy(before)
    after["metadata"] |= {"generation": 2, "resourceVersion": "9", "managedFields": []}
    after["status"] = {"x": 2}
    assert fields.images(before, after) == []


def test_images_of_earlier_versions_are_still_read():
    """They hold lists as whole values, and every field that the patch named, changed or not."""
    stored = [
        {"path": ["spec", "taints"], "prune": 2, "before": [TAINT_A], "after": [TAINT_A, TAINT_B]},
        {"path": ["spec", "unschedulable"], "prune": 1, "after": True},
        {"path": ["spec", "same"], "prune": 2, "before": 1, "after": 1},
    ]
    before, live = obj(taints=[TAINT_A], same=1), obj(taints=[TAINT_A, TAINT_B], unschedulable=True, same=1)
    assert restored(stored, live) == before
    assert fields.merge(before, fields.injecting(stored, before)) == live
