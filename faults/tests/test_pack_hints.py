"""The lint of hints: what gives too much away is refused with the hint and the reason."""

from __future__ import annotations

import pytest
import yaml

from faults import packs
from faults.packs import PackError
from faults.packs.hints import says
from faults.tests.variants import CATALOG, PACKS


@pytest.fixture
def hinting():
    """Return the pack of jobs without a GPU with one hint of these words."""
    files = packs.load_folder(CATALOG / "gpu-requests")

    def change(text, tier=1, **more):
        document = yaml.safe_load(files["scenario.yaml"]) | more
        document["hints"] = [{"tier": tier, "text": text}]
        return files | {"scenario.yaml": yaml.safe_dump(document, width=1000)}

    return change


def refused(files):
    with pytest.raises(PackError) as caught:
        packs.parse(files)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Has it a Selector?", "selector"),
        ("What are its labels?", "label"),
        ("Look at `nvidia.com/gpu`.", "nvidia.com/gpu"),
        ("Is there a node with nvidia-tesla-v100?", "nvidia-tesla-v100"),
        ("Compare ${parameter.label}.", "cloud.google.com/gke-accelerator"),
    ],
)
def test_tier_1_names_neither_a_word_of_the_cause_nor_a_value_that_nobody_was_told(hinting, text, word):
    message = refused(hinting(text))
    assert message == (
        f"scenario.yaml, hints.0.text: is of tier 1 and names the cause: {word!r}; say where to look instead"
    )


@pytest.mark.parametrize("text", ["Look at ${parameter.large}.", "Is it labelled, delimited, unlimited?"])
def test_tier_1_may_say_what_the_statement_tells_and_words_that_only_look_alike(hinting, text):
    assert packs.parse(hinting(text)).hints[0].tier == 1


def test_tier_2_may_name_the_cause(hinting):
    assert packs.parse(hinting("Compare its selector with the labels.", tier=2)).hints[0].tier == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Run `kubectl apply -f solutions/small-on-a-gpu.yaml`.",
            "kubectl apply -f solutions/small-on-a-gpu.yaml",
        ),
        (
            "Try kubectl  delete job\n${parameter.large} ${parameter.small}",
            "kubectl delete job reranker-tune query-tagger",
        ),
        ('Add `nvidia.com/gpu: "8"`.', 'nvidia.com/gpu: "8"'),
    ],
)
def test_no_hint_contains_a_line_of_a_solution(hinting, text, line):
    message = refused(hinting(text, tier=2))
    assert message.startswith(f"scenario.yaml, hints.0.text: contains a line of a solution: {line!r}")


def test_a_pack_with_hints_says_which_words_name_its_cause(hinting):
    files = hinting("Look around.")
    document = yaml.safe_load(files["scenario.yaml"])
    del document["cause"]
    without = files | {"scenario.yaml": yaml.safe_dump(document)}
    assert refused(without).startswith("scenario.yaml, cause: is needed")
    del document["schema"], document["rights"]  # a stored version of before
    assert packs.parse(files | {"scenario.yaml": yaml.safe_dump(document)}).cause == ()


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.slug)
def test_every_tier_2_hint_of_the_catalogue_or_its_statement_says_more_than_tier_1(pack):
    """The words of the cause are real ones: what leads to the exact place uses some of them."""
    told = " ".join(hint.text for hint in pack.hints if hint.tier == 2)
    assert any(says(told, word) for word in pack.cause)
