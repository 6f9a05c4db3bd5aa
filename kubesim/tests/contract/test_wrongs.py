"""What is wrong in one place is refused, or taken, as a real control plane does it, word for word."""

import os

import pytest

from kubesim.tests.contract import wrongs

# All of them are for `make torture` and `make contract-real`: sending 20,000 objects takes minutes.
EVERY = 1 if {"TORTURE_ROUNDS", "CONTRACT_KUBECONFIG"} & set(os.environ) else 13
BASES = [(area, path) for area in wrongs.areas() for path in wrongs.bases(area)]


@pytest.mark.parametrize(("area", "path"), BASES, ids=[path.rpartition("/")[2] for _, path in BASES])
def test_every_wrong_field_is_told_of_in_the_words_of_a_real_control_plane(cluster, area, path):
    recorded = wrongs.answers(area).get(path)
    assert recorded is not None, f"record it: python -m kubesim.tests.contract.wrongs --kubeconfig FILE {area}"
    apart = list(wrongs.differences(wrongs.play(path, wrongs.bases(area)[path], cluster, EVERY), recorded))
    assert not apart, f"{len(apart)} of {len(recorded)} differ:\n" + "\n".join(apart[:20])


def test_an_object_is_made_wrong_in_one_place_at_a_time():
    base = {"kind": "A", "spec": {"a": 1, "b": [True]}}
    made = dict(wrongs.changed(base))
    assert made["as it is"] == base
    assert made["spec.a missing"] == {"kind": "A", "spec": {"b": [True]}}
    assert made["spec.a = -1"]["spec"] == {"a": -1, "b": [True]}
    assert made["spec.b = [true, true]"]["spec"]["b"] == [True, True]
    assert made["spec.b.0 = false"]["spec"]["b"] == [False]
    assert made["spec = {}"] == {"kind": "A", "spec": {}}
