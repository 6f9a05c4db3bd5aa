"""The proof of every pack on practice clusters, as ``make catalog-check`` has it, and what it finds in bad packs.

``make test`` proves the first variant of some without the wrong turns that need the fault anew; torture, all.
"""

from __future__ import annotations

import copy
import uuid

import pytest
import yaml

from faults import packs, services
from faults.catalog_check import table
from faults.catalog_check.scene import Scene
from faults.catalog_check.stage import Stages
from faults.catalog_check.variant import missing_images, prove
from faults.clock import RealClock
from faults.models import Cluster, ScenarioVersion
from faults.services import seed_catalog
from faults.tests.conftest import deadline
from faults.tests.variants import CATALOG, CHECKED, FIRST_PACK, PACKS, USUAL_PACKS
from faults.toolbox import PRACTICE_IMAGE

pytestmark = pytest.mark.django_db


WALKED = {"gpu-requests", "slow-training"}
"""Packs whose repairs and refusals ``make test`` walks in ``test_catalog_*.py``, on one cluster for all."""

MORE_TEXTS = 10
"""Texts that one variant may have to read beside those that another has; its events alone are more."""

BREAKS_NODES = "gpu-off-duty"
"""The pack that ``make test`` proves of those whose faults the nodes' agents let happen."""


def case(pack, number):
    """Return a variant of a pack; for torture are all but the first, packs on clusters of unusual shape, those whose
    every route needs the fault anew (but one of those that break nodes), and those that have a file of their own."""
    anew = bool(pack.workspace) or (pack.requires.agent and pack.slug != BREAKS_NODES)
    long = number > 1 or pack not in USUAL_PACKS or anew or pack.slug in WALKED
    return pytest.param(pack, number, id=f"{pack.slug}-{number}", marks=pytest.mark.torture if long else ())


VARIANTS = [case(pack, number) for pack in CHECKED for number in range(1, len(pack.variants) + 1)]
SHARED = [pack for pack in CHECKED if "shared" in pack.requires.tiers]


def version_of(pack):
    return next(row for row in seed_catalog() if row.scenario.slug == pack.slug)


def proof_of(version, number=1, *, sample=True):
    stages = Stages(f"p-{uuid.uuid4().hex[:10]}")
    proof = prove(version, number, stages=stages, sample=sample)
    stages.close()
    return proof


@pytest.mark.parametrize(("pack", "number"), VARIANTS)
def test_every_variant_does_what_its_pack_says(pack, number, practice):
    proof = proof_of(version_of(pack), number, sample=number == 1)
    bound = pack.bind(parameters=pack.variants[number - 1])
    played = [turn.route.key for turn in bound.wrong_turns if turn.refused or number > 1]
    assert proof.error == ""
    assert list(proof.fixed_s) == [solution.key for solution in bound.solutions]
    assert sorted(proof.turns) == sorted(played)
    assert proof.commands


def test_a_proof_reads_no_events_of_the_variant_before(practice):
    stages = Stages(f"p-{uuid.uuid4().hex[:10]}")
    first, second = (prove(version_of(FIRST_PACK[0]), number, stages=stages, sample=True) for number in (1, 2))
    stages.close()
    assert (first.error, second.error) == ("", "")
    assert second.texts < first.texts + MORE_TEXTS


@pytest.fixture
def changed(practice):
    """Return a version of the first pack after a change to its document."""

    def go(change):
        files = packs.load_folder(CATALOG / "architecture-mismatch")
        document = yaml.safe_load(files["scenario.yaml"])
        change(document, files)
        files |= {"scenario.yaml": yaml.safe_dump(document, width=1000)}
        scenario = version_of(FIRST_PACK[0]).scenario
        return ScenarioVersion.objects.create(
            scenario=scenario, number=99, digest=packs.digest(files), files=files, title="x", minutes=20
        )

    return go


def tell(document, files):
    name = "manifests/embedding-api.yaml"
    files[name] = files[name].replace("app: embedding-api", "app: embedding-api\n    purpose: interview", 1)


def repair_by_a_wrong_turn(document, files):
    right = copy.deepcopy(document["solutions"][1]["lines"])
    document["wrong_turns"][3] |= {"lines": right, "refused": "immutable"}


def pass_at_once(document, files):
    document["checks"][1] |= {"expr": "true", "needs": []}


def break_a_guard(document, files):
    document["guards"][0]["expr"] = "size(deployments) == 0"


def show_at_once(document, files):
    document["symptom"] = [document["symptom"][0] | {"expr": "true"}]


def show_too_late(document, files):
    document["symptom_seconds"] = 0.1
    document["symptom"][0]["expr"] = "pods.exists(p, field(p, 'status.containerStatuses', [])[0].restartCount > 1)"


def never_repair(document, files):
    name = "solutions/multi-platform-image.yaml"
    files[name] = files[name].replace("image: python:3.9-slim", "image: arm64v8/python:3.7-slim-stretch")


LONG = pytest.mark.torture


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(tell, "Deployment embedding-api says 'interview', which tells the candidate"),
        pytest.param(pass_at_once, "before the fault is there, these checks pass already: training-output"),
        pytest.param(repair_by_a_wrong_turn, "the cluster should refuse it with 'immutable', and says", marks=LONG),
        pytest.param(break_a_guard, "these guards break: neighbour-serves", marks=LONG),
        pytest.param(show_at_once, "before the fault is there, its symptom shows already", marks=LONG),
        pytest.param(show_too_late, "symptom_seconds says 0.1", marks=LONG),
        pytest.param(never_repair, "solution delete-and-apply: waited 180 s: job-complete", marks=LONG),
    ],
)
def test_it_says_what_is_wrong_with_a_pack(change, words, changed):
    assert words in proof_of(changed(change)).error


def test_the_catalogue_is_current():
    """Only what is measured may differ. To prove what has changed: make catalog-check ARGS="--scenario SLUG"."""
    written = table.PATH.read_text(encoding="utf-8")
    current = table.render(PACKS, {})
    assert table.without_measures(written) == table.without_measures(current), "Run: make catalog-check"


def test_the_catalogue_keeps_what_was_measured_of_variants_that_have_not_changed():
    first = PACKS[0]
    row = next(line for line in table.render(PACKS, {}).splitlines() if line.startswith("| 1 |"))
    key = (sorted(PACKS, key=lambda pack: pack.slug)[0].slug, row.removeprefix("| ").removesuffix(" | - | - |"))
    written = table.render(PACKS, {key: ("0.3 s", "1.5 s")})
    assert row.replace("| - | - |", "| 0.3 s | 1.5 s |") in written
    assert {found: seen for found, seen in table.read(written).items() if seen[0] != "-"} == {key: ("0.3 s", "1.5 s")}
    assert table.without_measures(written) == table.without_measures(table.render(PACKS, {}))
    assert first.slug in written


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.slug)
def test_a_seed_decides_the_variant_and_every_variant_is_drawn(pack):
    cluster, version = Cluster.objects.create(name="of-nobody", tier=Cluster.Tier.PRACTICE), version_of(pack)

    def planned(seed):
        return services.plan_fault_run(
            cluster=cluster,
            scenario_version=version,
            namespaces=dict(pack.namespaces),
            parameters={},
            seed=seed,
            values={},
            deadline=deadline(),
        ).parameters

    drawn = [services.draw_variant(pack, seed) for seed in range(64)]
    assert [planned(seed) for seed in range(8)] == [planned(seed) for seed in range(8)] == drawn[:8]
    assert {tuple(values.items()) for values in drawn} == {tuple(values.items()) for values in pack.variants}


def test_a_node_lacks_the_images_that_it_would_have_to_pull():
    names = ["docker.io/library/python:3.9-slim", "nvcr.io/nvidia/pytorch:25.01-py3"]
    there = {"metadata": {"name": "gpu-0"}, "status": {"images": [{"names": [name]} for name in names]}}
    fresh = {"metadata": {"name": "gpu-1"}, "status": {}}
    wanted = ["python:3.9-slim", "nvcr.io/nvidia/pytorch:25.01-py3"]
    assert missing_images([there], wanted) == ""
    assert missing_images([there], ["ython:3.9-slim"]) == "ython:3.9-slim on gpu-0"
    assert missing_images([there, fresh], wanted[:1]) == "python:3.9-slim on gpu-1"


@pytest.mark.parametrize("pack", SHARED, ids=lambda pack: pack.slug)
def test_it_works_under_the_limits_of_a_shared_cluster(pack, cluster, settings):
    settings.TOOLBOX_IMAGE = PRACTICE_IMAGE
    Cluster.objects.filter(pk=cluster.pk).update(tier=Cluster.Tier.SHARED)
    cluster.refresh_from_db()
    planned = {"cluster": cluster, "namespaces": dict(pack.namespaces), "deadline": deadline()}
    environment = services.plan_environment_run(**planned, packs=[pack])
    environment = services.inject_run(run_id=environment.pk, holder="proof")
    run = services.plan_fault_run(**planned, scenario_version=version_of(pack), parameters={}, seed=0)
    services.grant_rights(run=run)
    services.inject_run(run_id=run.pk, holder="proof")
    services.confirm_symptom(run_id=run.pk, holder="proof", timeout_s=30)
    access = services.candidate_access(run=environment, seconds=600)
    clock = RealClock()
    with services.candidate_shell(run=run, kubeconfig=access.kubeconfig, clock=clock) as shell:
        scene = Scene(run, shell, clock)
        scene.act(scene.pack.solutions[0])
        scene.until(lambda: scene.open_checks(scene.look()))
    assert scene.broken_guards(scene.look()) == ""
    Cluster.objects.filter(pk=cluster.pk).update(tier=Cluster.Tier.PRACTICE)
    assert services.revert_run(run_id=run.pk, holder="proof").residue == []
    assert services.revert_run(run_id=environment.pk, holder="proof").residue == []
