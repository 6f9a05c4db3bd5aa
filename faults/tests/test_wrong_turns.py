"""Wrong turns of packs: what is refused when they are read, and how their outcome is judged."""

from __future__ import annotations

import pytest
import yaml

from faults import packs
from faults.catalog_check.turns import missing
from faults.checks import Outcome
from faults.packs import PackError
from faults.tests.variants import CATALOG, PACKS

ALL = ["job-complete", "training-output", "same-work"]


@pytest.fixture
def turning():
    """Return the pack of the wrong architecture with its first wrong turn changed."""
    files = packs.load_folder(CATALOG / "architecture-mismatch")

    def change(**fields):
        document = yaml.safe_load(files["scenario.yaml"])
        document["wrong_turns"][0] |= fields
        return files | {"scenario.yaml": yaml.safe_dump(document, width=1000)}

    return change


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"fails": {"nonsense": "x"}},
            "wrong_turns.0.fails: nonsense is no check of the pack; valid are: job-complete",
        ),
        ({"passes": ["nonsense"]}, "wrong_turns.0.passes: nonsense is no check"),
        ({"breaks": {"same-work": "x"}}, "wrong_turns.0.breaks: same-work is no guard of the pack; valid are: neigh"),
        ({"passes": ["job-complete"]}, "wrong_turns.0.passes: job-complete is in fails as well"),
        ({"fails": {}}, "wrong_turns.0"),
        ({"key": "replace-force"}, "the key replace-force is there twice"),
        ({"variants": [{"job": "other-train"}]}, "wrong_turns.0.variants.0: no variant has job=other-train"),
        (
            {"lines": ["kubectl apply -f wrong-turns/no.yaml"]},
            "wrong_turns.0.lines: there is no file wrong-turns",
        ),
        ({"steps": [{"verb": "create", "command": "x", "file": "wrong-turns/no.yaml"}]}, "cannot stand beside lines"),
        ({"colour": "red"}, "wrong_turns.0"),
    ],
)
def test_it_says_what_is_wrong_and_where(turning, fields, words):
    with pytest.raises(PackError) as caught:
        packs.parse(turning(**fields))
    assert words in str(caught.value)


def test_a_turn_that_passes_every_check_and_breaks_no_guard_is_a_solution():
    files = packs.load_folder(CATALOG / "architecture-mismatch")
    document = yaml.safe_load(files["scenario.yaml"])
    turn = document["wrong_turns"][0]
    del turn["fails"]
    turn |= {"passes": ALL, "refused": "x"}
    with pytest.raises(PackError, match="names every check, and no guard breaks: that is a solution"):
        packs.parse(files | {"scenario.yaml": yaml.safe_dump(document)})
    turn["breaks"] = {"neighbour-serves": "0 of 2"}
    assert packs.parse(files | {"scenario.yaml": yaml.safe_dump(document)}).wrong_turns[0].passes == tuple(ALL)


def test_a_turn_is_for_the_variants_that_it_names():
    pack = next(pack for pack in PACKS if pack.slug == "gpu-requests")
    for row in pack.variants:
        turns = {turn.route.key for turn in pack.bind(parameters=row).wrong_turns}
        assert ("selector-only" in turns) is (int(row["gpus"]) > 8)
        assert "large-only" in turns


def test_its_outcome_is_told_in_words_until_all_of_it_shows():
    pack = next(pack for pack in PACKS if pack.slug == "architecture-mismatch").bind()
    turn = next(turn for turn in pack.wrong_turns if turn.route.key == "other-program")
    waiting = {"job-complete": Outcome("fail", "pods: none"), "same-work": Outcome("not_run", "Waits")}
    assert missing(turn, waiting) == "job-complete should pass, and says 'pods: none'"
    halfway = {"job-complete": Outcome("pass"), "same-work": Outcome("fail", "command: python3")}
    assert missing(turn, halfway) == "same-work should fail with 'command: true', and is fail: 'command: python3'"
    assert missing(turn, halfway | {"same-work": Outcome("fail", "command: true; GPUs: 1")}) == ""


@pytest.mark.parametrize("pack", [pack for pack in PACKS if pack.symptom], ids=lambda pack: pack.slug)
def test_every_fault_has_wrong_turns_in_every_variant(pack):
    for values in pack.variants:
        assert len(pack.bind(parameters=values).wrong_turns) >= 2
