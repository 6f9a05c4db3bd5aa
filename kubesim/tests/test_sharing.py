"""Copies that share what is alike."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim import sharing
from kubesim.sharing import copy

POD = {
    "metadata": {"name": "a", "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:phase": {}}}}]},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def test_equal_parts_are_one_and_different_ones_are_not():
    first, second = copy(POD), copy({**POD, "status": {"phase": "Running"}})
    assert first["spec"] is second["spec"]
    assert first["spec"] is not POD["spec"]
    managers = [found["metadata"]["managedFields"][0] for found in (first, second)]
    assert managers[0]["fieldsV1"] is managers[1]["fieldsV1"]
    assert first["metadata"] is not second["metadata"]


def test_equal_parts_of_two_specs_are_one():
    tolerations = [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable")]
    first, second = (
        copy({"spec": {"nodeName": node, "labels": {"node": node * 200}, "tolerations": [*tolerations]}})["spec"]
        for node in ("one", "two")
    )
    assert first["tolerations"] is second["tolerations"] is not tolerations
    assert first["labels"] != second["labels"]


@pytest.mark.parametrize("values", [(1, True), (1, 1.0), (0, False), ({"a": 1}, {"a": 1.0})])
def test_what_python_takes_for_equal_is_not_for_json(values):
    for value in values:
        assert orjson.dumps(copy({"spec": {"value": value}})) == orjson.dumps({"spec": {"value": value}})


@pytest.mark.parametrize("metadata", [None, 3, [], {"managedFields": None}, {"managedFields": [1]}, {"metadata": {}}])
def test_metadata_of_any_shape_is_copied(metadata):
    assert copy({"metadata": metadata}) == {"metadata": metadata}


def test_what_was_seen_long_ago_is_forgotten(monkeypatch):
    monkeypatch.setattr(sharing, "MOST_BYTES", 1000)
    kept = [copy({"spec": {"number": number}}) for number in range(200)]
    assert sum(map(len, sharing._seen)) <= 1000
    assert copy(kept[0]) == kept[0]


def test_what_a_parent_has_kept_is_never_forgotten_and_takes_no_room(monkeypatch):
    monkeypatch.setattr(sharing, "_kept", {})
    monkeypatch.setattr(sharing, "MOST_BYTES", 1000)
    before = copy({"spec": {"of": "the parent"}})["spec"]
    sharing.keep()
    for number in range(200):
        copy({"spec": {"number": number}})
    assert copy({"spec": {"of": "the parent"}})["spec"] is before
    assert b'{"of":"the parent"}' not in sharing._seen
    assert [raw for raw, value in sharing._kept.items() if orjson.dumps(value).decode() != raw] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(obj=st.dictionaries(st.sampled_from(["metadata", "managedFields", "spec", "ü\n"]), JSON))
def test_a_copy_is_what_json_makes_of_it(obj):
    assert orjson.dumps(copy(obj)) == orjson.dumps(obj)
