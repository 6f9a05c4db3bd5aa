"""The emulated shell's kubectl prints what a real one prints on the same cluster, scene by scene."""

from __future__ import annotations

import json

import pytest

from kubesim.tests.contract import emulated
from kubesim.tests.contract.transcripts import load

FILES, SCENES = load(emulated.SCENES)
ANSWERS = json.loads(emulated.RECORDED.read_text())


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_a_scene_prints_what_was_recorded(scene, tmp_path):
    played = emulated.emulated_answers(FILES, scene, tmp_path)
    recorded = ANSWERS[scene.name]
    assert [answer.command.line for answer in played] == [line for line, _, _ in recorded]
    wrong = [
        (answer.command.line, (answer.status, answer.output), (status, output))
        for answer, (_, status, output) in zip(played, recorded, strict=True)
        if (answer.status, answer.output) != (status, output)
    ]
    assert wrong == []


def test_every_scene_is_recorded():
    assert {scene.name for scene in SCENES} == set(ANSWERS)
