"""An image of ours has one name on simulated nodes, and on real ones that which the installation sets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from faults import packs, services
from faults.models import Cluster
from faults.services.catalog import CATALOG

PRACTICE = "ghcr.io/platform-tools/inference-server:1.2"
OURS = "registry.example.com/team/inference-server:1.2"
PACK = packs.parse(packs.load_folder(CATALOG / "tenant-workloads"))


def values_in(tier):
    """Return what a cluster of a tier, which nobody asks anything, decides."""
    return services.cluster_values(cluster=SimpleNamespace(tier=tier), pack=PACK, seed=1)


def texts_with(values):
    bound = PACK.bind(parameters={**PACK.variants[0], **values})
    return [bound.statement, bound.brief, *(text for route in bound.solutions for text in route.files.values())]


def test_simulated_nodes_know_it_by_the_name_that_stands_in_its_place_before_there_is_a_cluster(settings):
    settings.INFERENCE_SERVER_IMAGE = OURS
    assert values_in(Cluster.Tier.PRACTICE) == {"cluster.image": PRACTICE}
    assert texts_with({}) == texts_with(values_in(Cluster.Tier.PRACTICE))


def test_real_nodes_pull_it_by_the_name_that_is_set_and_every_text_says_so(settings):
    settings.INFERENCE_SERVER_IMAGE = OURS
    values = values_in(Cluster.Tier.DEDICATED)
    assert values == {"cluster.image": OURS}
    named = [text for text in texts_with(values) if "inference-server:1.2" in text]
    assert named
    assert all(OURS in text and PRACTICE not in text for text in named)
    assert any(OURS in check.condition.expr for check in PACK.bind(parameters=values).checks)


@pytest.mark.parametrize("tier", [Cluster.Tier.PRACTICE, Cluster.Tier.DEDICATED])
def test_without_that_name_the_scenario_is_for_practice_clusters_alone(settings, tier):
    settings.INFERENCE_SERVER_IMAGE = ""
    refused = services.refusal_together(packs=[PACK], tier=tier)
    assert ("make images" in refused and "set INFERENCE_SERVER_IMAGE" in refused) == (tier == Cluster.Tier.DEDICATED)
    settings.INFERENCE_SERVER_IMAGE = OURS
    assert services.refusal_together(packs=[PACK], tier=tier) == ""
