"""The three kinds of patch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.patch import json_patch, merge_patch, strategic_patch
from kubesim.errors import ApiError
from kubesim.schema.types import shape_of

POD = shape_of("V1Pod")
NODE = shape_of("V1Node")
DEPLOYMENT = shape_of("V1Deployment")


def pod(*containers, **spec):
    return {"spec": {"containers": list(containers), **spec}}


def test_a_json_patch_leaves_the_original_alone():
    before = {"metadata": {"labels": {"a": "1"}}}
    after = json_patch(before, [{"op": "replace", "path": "/metadata/labels/a", "value": "2"}])
    assert after["metadata"]["labels"]["a"] == "2"
    assert before["metadata"]["labels"]["a"] == "1"


@pytest.mark.parametrize("operations", [[{"op": "remove", "path": "/x"}], [{"op": "test", "path": "/a", "value": 2}]])
def test_a_json_patch_that_cannot_be_applied_is_422(operations):
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, operations)
    assert caught.value.code == 422


def test_a_merge_patch_merges_objects_deletes_nulls_and_replaces_lists():
    before = {"a": {"b": 1, "c": 2}, "l": [1, 2]}
    assert merge_patch(before, {"a": {"b": None, "d": {"e": None}}, "l": [3]}) == {"a": {"c": 2, "d": {}}, "l": [3]}


def test_containers_merge_by_name():
    after = strategic_patch(
        pod({"name": "a", "image": "1"}, {"name": "b", "image": "1"}), pod({"name": "b", "image": "2"}), POD
    )
    assert after == pod({"name": "a", "image": "1"}, {"name": "b", "image": "2"})


def test_nested_lists_merge_by_their_own_keys():
    before = pod({"name": "a", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]})
    change = pod({"name": "a", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 80, "name": "web"}]})
    container = strategic_patch(before, change, POD)["spec"]["containers"][0]
    assert container["env"] == [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]
    assert container["ports"] == [{"containerPort": 80, "name": "web"}]


def test_patch_delete_removes_an_entry():
    after = strategic_patch(pod({"name": "a"}, {"name": "b"}), pod({"name": "a", "$patch": "delete"}), POD)
    assert after == pod({"name": "b"})


def test_patch_replace_replaces_a_list_or_a_map():
    after = strategic_patch(pod({"name": "a"}), pod({"$patch": "replace"}, {"name": "z"}), POD)
    assert after == pod({"name": "z"})
    replaced = strategic_patch(
        {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}, POD
    )
    assert replaced["metadata"]["labels"] == {"b": "2"}


def test_set_element_order_orders_the_result():
    change = {
        "spec": {
            "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c"}],
        }
    }
    after = strategic_patch(pod({"name": "a"}, {"name": "b"}), change, POD)
    assert [container["name"] for container in after["spec"]["containers"]] == ["b", "c", "a"]


def test_primitive_lists_merge_and_lose_what_is_deleted():
    before = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_patch(before, {"metadata": {"finalizers": ["c", "a"]}}, POD)["metadata"]["finalizers"] == [
        "c",
        "a",
        "b",
    ]
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic_patch(before, change, POD)["metadata"]["finalizers"] == ["b"]


def test_retain_keys_drops_the_rest():
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_patch(before, change, DEPLOYMENT)["spec"]["strategy"] == {"type": "Recreate"}


def test_tolerations_and_taints_are_replaced_whole():
    before = {"spec": {"taints": [{"key": "a"}]}}
    assert strategic_patch(before, {"spec": {"taints": [{"key": "b"}]}}, NODE) == {"spec": {"taints": [{"key": "b"}]}}


def test_null_removes_a_field():
    assert strategic_patch({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}, NODE) == {"spec": {}}


def test_an_entry_without_its_merge_key_is_refused():
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_patch(pod({"name": "a"}), pod({"image": "x"}), POD)


def test_an_unknown_directive_is_refused():
    with pytest.raises(ApiError, match="unknown patch type: upend in map"):
        strategic_patch({"spec": {}}, {"spec": {"$patch": "upend"}}, POD)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(before=TREES, change=TREES)
def test_a_merge_patch_applied_twice_changes_nothing_more(before, change):
    once = merge_patch(before, change)
    assert merge_patch(once, change) == once
