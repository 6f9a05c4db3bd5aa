"""Every request of exchanges/ is answered as a real control plane answered it, body and all."""

import pytest

from kubesim.tests.contract import exchanges

LONG = {"policies: what policies say by parameters, conditions and variables", "fields: every kind"}
LONG |= {"rules: what rules say", "expressions: what comes of an expression"}


def _case(scene):
    """Return a scene as a case; the longest, of hundreds of expressions each, are left to `make torture`."""
    name = f"{scene.area}: {scene.name}"
    return pytest.param(scene, id=name, marks=[pytest.mark.torture] if name in LONG else [])


SCENES = [_case(scene) for area in exchanges.areas() for scene in exchanges.load(area)]


@pytest.mark.parametrize("scene", SCENES)
def test_the_answers_are_those_of_a_real_control_plane(cluster, scene):
    recorded = exchanges.answers(scene.area).get(scene.name)
    assert recorded is not None, (
        f"record it: python -m kubesim.tests.contract.exchanges --kubeconfig FILE {scene.area}"
    )
    found = list(exchanges.differences(scene, exchanges.play(scene, cluster), recorded))
    assert not found, "\n".join(found)


def test_the_scenes_that_are_left_to_torture_are_there():
    assert {case.id for case in SCENES} >= LONG


def test_what_no_two_runs_share_is_taken_out():
    metadata = {"uid": "73b9a43f-ea1e-4614-a37a-842c95972976", "resourceVersion": "12", "namespace": "contract-x"}
    shown = exchanges.normalised({"metadata": metadata, "time": "2026-11-20T23:47:12Z"}, "contract-x")
    assert shown == {
        "metadata": {"uid": "<uid>", "resourceVersion": "<resourceVersion>", "namespace": "{ns}"},
        "time": "<time>",
    }


def test_a_difference_tells_where_it_is():
    assert list(exchanges.compared({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})) == [(".a[1].b", "2", "3")]
