"""Nonsense in place of any part of an object, a patch or its options is refused, never by a crash."""

from __future__ import annotations

import copy
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.api.operations import Operations
from kubesim.clock import ManualClock
from kubesim.errors import ApiError
from kubesim.schema.kinds import registry
from kubesim.store import Store
from kubesim.tests.test_models import KINDS, OBJECTS

EXAMPLES = 100 if "TORTURE_ROUNDS" in os.environ else 8
"""For each of the kinds, and of the forms of a patch."""
WORDS = st.sampled_from(
    [
        "",
        "a",
        "-1",
        "A/b",
        "1Gi",
        "$patch",
        "replace",
        "delete",
        "$retainKeys",
        "name",
        "metadata",
        "spec",
        "In",
        "\x00",
        "é",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
STEPS = st.lists(st.integers(0, 9), max_size=7)


def fresh():
    clock = ManualClock()
    operations = Operations(Store(clock), clock)
    operations.create(registry.by_resource("namespaces"), "", {"metadata": {"name": "ml"}})
    return operations


def spoiled(obj, steps, junk):
    """Return an object with ``junk`` at a place that ``steps`` lead to."""
    broken = copy.deepcopy(obj)
    node = broken
    for step in steps[:-1]:
        children = list(node) if isinstance(node, dict) else list(range(len(node)))
        child = node[children[step % len(children)]] if children else None
        if not isinstance(child, dict | list) or not child:
            break
        node = child
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if keys:
        node[keys[(steps or [0])[-1] % len(keys)]] = junk
    return broken


def answered(call, *args, **kwargs):
    """Call, and accept any answer but a crash and but a 500."""
    try:
        return call(*args, **kwargs)
    except ApiError as error:
        refusal = error
    assert refusal.code < 500 or "failed to create typed patch object" in refusal.message, refusal.message
    return None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=STEPS, junk=JSON)
def test_a_spoiled_object_is_answered(kind, steps, junk):
    ops, namespace = fresh(), "ml" if kind.namespaced else ""
    whole = {
        **OBJECTS[kind.resource],
        "metadata": {"name": "a", "labels": {"x": "y"}, "finalizers": ["example.com/x"]},
    }
    answered(ops.create, kind, namespace, spoiled(whole, steps, junk))
    if answered(ops.create, kind, namespace, whole):
        current = ops.get(kind, namespace, "a")
        answered(ops.update, kind, namespace, "a", spoiled(current, steps, junk))


@pytest.mark.parametrize("patch_type", ["json", "merge", "strategic", "apply"])
@pytest.mark.parametrize("subresource", ["", "status", "scale"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=STEPS, junk=JSON)
def test_a_spoiled_patch_is_answered(patch_type, subresource, steps, junk):
    ops, kind = fresh(), registry.by_resource("deployments.apps")
    whole = {**OBJECTS[kind.resource], "metadata": {"name": "a"}}
    ops.create(kind, "ml", whole)
    operations = [{"op": "add", "path": "/spec/replicas", "value": 3}, {"op": "copy", "from": "", "path": "/spec/x"}]
    body = operations if patch_type == "json" else whole
    for change in (spoiled(body, steps, junk), junk):
        answered(ops.patch, kind, "ml", "a", change, patch_type=patch_type, subresource=subresource)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, junk=JSON)
def test_spoiled_options_and_bodies_of_subresources_are_answered(steps, junk):
    ops, pods = fresh(), registry.by_resource("pods")
    wanted = {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "propagationPolicy": "Foreground"}
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}}
    ops.create(pods, "ml", {"metadata": {"name": "a"}, **OBJECTS["pods"]})
    answered(ops.create, pods, "ml", spoiled(binding, steps, junk), name="a", subresource="binding")
    answered(
        ops.create, pods, "ml", {"deleteOptions": spoiled(wanted, steps, junk)}, name="a", subresource="eviction"
    )
    answered(ops.delete, pods, "ml", "a", delete_options=spoiled(wanted, steps, junk))


@given(text=st.text(alphabet="ab=!,()<> in\\./-", max_size=20))
def test_any_selector_is_answered(text):
    ops, pods = fresh(), registry.by_resource("pods")
    answered(ops.list, pods, "ml", label_selector=text)
    answered(ops.list, pods, "ml", field_selector=text)


def test_a_patch_that_copies_itself_again_and_again_is_refused():
    ops, maps = fresh(), registry.by_resource("configmaps")
    ops.create(maps, "ml", {"metadata": {"name": "a"}, "data": {"k": "x" * 100_000}})
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/d{n}"} for n in range(40)]
    with pytest.raises(ApiError) as caught:
        ops.patch(maps, "ml", "a", doubling, patch_type="json")
    assert caught.value.code == 413


def test_a_patch_of_absurd_depth_is_refused():
    ops, change = fresh(), {}
    for _ in range(900):
        change = {"a": change}
    with pytest.raises(ApiError, match="exceeded max depth"):
        ops.patch(registry.by_resource("namespaces"), "", "ml", change)
