"""Every request of exchanges/ is answered as a real control plane answered it, body and all."""

import pytest

from kubesim.tests.contract import exchanges

SCENES = [scene for area in exchanges.areas() for scene in exchanges.load(area)]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.area}: {scene.name}")
def test_the_answers_are_those_of_a_real_control_plane(cluster, scene):
    recorded = exchanges.answers(scene.area).get(scene.name)
    assert recorded is not None, (
        f"record it: python -m kubesim.tests.contract.exchanges --kubeconfig FILE {scene.area}"
    )
    found = list(exchanges.differences(scene, exchanges.play(scene, cluster), recorded))
    assert not found, "\n".join(found)


def test_what_no_two_runs_share_is_taken_out():
    metadata = {"uid": "73b9a43f-ea1e-4614-a37a-842c95972976", "resourceVersion": "12", "namespace": "contract-x"}
    shown = exchanges.normalised({"metadata": metadata, "time": "2026-11-20T23:47:12Z"}, "contract-x")
    assert shown == {
        "metadata": {"uid": "<uid>", "resourceVersion": "<resourceVersion>", "namespace": "{ns}"},
        "time": "<time>",
    }


def test_a_difference_tells_where_it_is():
    assert list(exchanges.compared({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})) == [(".a[1].b", "2", "3")]
