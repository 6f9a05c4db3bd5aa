"""Steps and solutions of a pack that belong to some of its variants alone."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from faults import packs
from faults.packs import PackError

CATALOG = Path(__file__).resolve().parents[1] / "catalog"
JOBS = ("nightly-train", "ranker-train", "tokenizer-train", "caption-train", "retriever-train")
NODE = {"apiVersion": "v1", "kind": "Node", "name": "trainer-1"}
CORDON = {"kind": "patch", "target": NODE, "patch": {"spec": {"unschedulable": True}}}


@pytest.fixture
def edit():
    """Return the first pack's files after a change to its document, in which each variant has a cause."""
    files = packs.load_folder(CATALOG / "architecture-mismatch")
    document = yaml.safe_load(files["scenario.yaml"])
    causes = ("image", "image", "cordon", "taint", "taint")
    document["variants"] = [{"job": job, "cause": cause} for job, cause in zip(JOBS, causes, strict=True)]
    document["requires"]["tiers"] = ["practice"]

    def change(apply):
        changed = copy.deepcopy(document)
        apply(changed)
        return files | {"scenario.yaml": yaml.safe_dump(changed, width=1000)}

    return change


def kinds(pack, **values):
    return [step.kind for step in pack.bind(parameters=values).inject]


def test_a_step_belongs_to_the_variants_that_have_all_values_of_one_of_its_rows(edit):
    rows = [{"cause": "cordon"}, {"cause": "taint", "job": "caption-train"}]
    pack = packs.parse(edit(lambda d: d["inject"].append({**CORDON, "variants": rows})))
    assert kinds(pack, cause="cordon") == ["manifest", "manifest", "patch"]
    assert kinds(pack, job="caption-train") == ["manifest", "manifest", "patch"]
    assert kinds(pack, job="retriever-train") == ["manifest", "manifest"]
    assert kinds(pack, cause="image") == ["manifest", "manifest"]
    assert "variants" not in pack.bind(parameters={"cause": "cordon"}).inject[-1].spec


def test_a_solution_belongs_to_its_variants_too(edit):
    def add(document):
        route = copy.deepcopy(document["solutions"][0])
        document["solutions"].append({**route, "key": "uncordon", "variants": [{"cause": "cordon"}]})

    pack = packs.parse(edit(add))
    assert "uncordon" in [found.key for found in pack.bind(parameters={"cause": "cordon"}).solutions]
    assert "uncordon" not in [found.key for found in pack.bind().solutions]


def test_binding_again_to_another_variant_brings_its_steps_back(edit):
    pack = packs.parse(edit(lambda d: d["inject"].append({**CORDON, "variants": [{"cause": "cordon"}]})))
    assert len(pack.bind(parameters={"cause": "image"}).bind(parameters={"cause": "cordon"}).inject) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda d: d["inject"].append({**CORDON, "variants": [{"cause": "cordon"}, {"cause": "drain"}]}),
            "inject.2.variants.1: no variant has cause=drain",
        ),
        (
            lambda d: d["inject"].append({**CORDON, "variants": [{"colour": "red"}]}),
            "inject.2.variants.0: no variant has colour=red",
        ),
        (lambda d: d["inject"].append({**CORDON, "variants": []}), "inject.2.variants: "),
        (lambda d: d["inject"].append({**CORDON, "variants": "cordon"}), "inject.2.variants: "),
        (
            lambda d: [step.update(variants=[{"cause": "taint"}]) for step in d["inject"]],
            "variants.0: has no step of inject",
        ),
        (
            lambda d: d["solutions"][0].update(variants=[{"cause": "taint"}]),
            "variants.0: has 1 of the solutions; at least two must be its own",
        ),
        (
            lambda d: [row.update(variants=[{"cause": "taint"}]) for row in d["solutions"]],
            "variants.0: has 0 of the solutions",
        ),
    ],
)
def test_it_says_what_is_wrong_with_the_variants_of_a_step(edit, change, words):
    def two_solutions(document):
        del document["solutions"][2:]
        change(document)

    with pytest.raises(PackError) as caught:
        packs.parse(edit(two_solutions))
    assert words in str(caught.value)
