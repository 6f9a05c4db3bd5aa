"""The limits of a session's namespaces, by tier and by what its packs ask for."""

from __future__ import annotations

import pytest

from faults import environment, guardrails
from faults.guardrails import Guardrails
from faults.tests.variants import TELLS

HOME = "ml-training"


def plan(tier="practice", rights=(), gpus=1):
    return Guardrails.plan(tier=tier, home=HOME, gpus=gpus, rights=rights)


def rules(rails):
    return [rule for change in environment.changes([HOME], rails) for rule in _rules(change)]


def _rules(change):
    return getattr(change, "object", {}).get("rules", []) if change.target.kind == "Role" else []


def may_debug(rails):
    return any("pods/ephemeralcontainers" in rule["resources"] for rule in rules(rails))


@pytest.mark.parametrize(
    ("tier", "level"), [("practice", "baseline"), ("dedicated", "baseline"), ("shared", "restricted")]
)
def test_each_tier_has_its_level_of_pod_security(tier, level):
    labels = guardrails.namespace_labels(plan(tier))
    assert labels["pod-security.kubernetes.io/enforce"] == labels["pod-security.kubernetes.io/warn"] == level


def test_a_pack_gets_what_it_asks_for_by_name_and_nothing_else():
    assert plan(rights=["privileged-pods"]).level == "privileged"
    assert not may_debug(plan(rights=["privileged-pods"]))
    assert may_debug(plan(rights=["ephemeral-containers"]))
    assert not may_debug(plan())
    assert "nodeName" in str(guardrails.objects(plan(), [HOME]))
    assert "nodeName" not in str(guardrails.objects(plan(rights=["direct-placement"]), [HOME]))


def test_a_shared_cluster_grants_nothing_more_whatever_is_asked_for():
    assert plan("shared", ["privileged-pods", "ephemeral-containers", "direct-placement"]) == plan("shared")


def test_sessions_on_one_shared_cluster_share_no_name():
    first = environment.changes(["a"], Guardrails.plan(tier="shared", home="a", gpus=1, rights=()))
    second = environment.changes(["b"], Guardrails.plan(tier="shared", home="b", gpus=1, rights=()))
    assert {change.target for change in first} & {change.target for change in second} == set()


def test_on_a_shared_cluster_only_ones_own_namespaces_can_be_read():
    change = next(
        change for change in environment.changes([HOME], plan("shared")) if change.target.kind == "ClusterRole"
    )
    readable = [rule for rule in change.object["rules"] if "namespaces" in rule["resources"]]
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in readable] == [(["get"], [HOME])]


def test_nothing_of_it_tells():
    for tier in ("practice", "dedicated", "shared"):
        made = [getattr(change, "object", change.target) for change in environment.changes([HOME], plan(tier))]
        assert not TELLS.search(str(made))


def test_what_is_frozen_is_read_back():
    rails = plan(rights=["ephemeral-containers"])
    assert Guardrails.load(rails.dump()) == rails


def test_a_run_of_an_earlier_version_keeps_its_steps_in_their_places():
    """A step is known by its place in the list: reopening an interview of before must find them again."""
    kinds = [change.target.kind for change in environment.changes([HOME], Guardrails.load({}))]
    assert kinds == ["Namespace", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]


def test_what_grants_comes_last():
    kinds = [change.target.kind for change in environment.changes([HOME], plan())]
    assert kinds[-2:] == ["RoleBinding", "ClusterRoleBinding"]
    assert kinds.index("NetworkPolicy") < kinds.index("Role")
