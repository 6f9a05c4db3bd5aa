"""The toolbox of a session: it runs under the candidate's account, may do what the candidate may, and goes."""

from __future__ import annotations

import pytest

from faults import environment, selectors, services
from faults.engine import fingerprint
from faults.errors import Forbidden
from faults.guardrails import Guardrails
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun
from faults.services.toolboxes import nodes_for_toolboxes
from faults.tests.conftest import NAMESPACES, deadline
from faults.tests.variants import PACKS, TELLS
from faults.toolbox import NAME, NAMESPACE, PRACTICE_IMAGE, Toolbox, why_not_running
from faults.toolbox_nodes import NODE_ROLE

pytestmark = pytest.mark.django_db
HOME = "ml-training"
BOX = Toolbox(NAMESPACE, PRACTICE_IMAGE)


@pytest.fixture
def session(cluster):
    """An environment with a toolbox that runs."""
    run = services.plan_environment_run(
        cluster=cluster, namespaces=NAMESPACES, deadline=deadline(), toolbox_namespace=NAMESPACE
    )
    run = services.inject_run(run_id=run.pk, holder="test")
    assert services.missing_toolbox(run=run, hold_s=20) == ""
    return run


def test_a_toolbox_whose_pod_has_gone_is_told_of(session, kube):
    kube.delete("v1", "Pod", NAME, NAMESPACE, grace_seconds=0)
    assert services.missing_toolbox(run=session) == "its pod has gone"


def test_the_candidate_sees_and_enters_the_toolbox_and_makes_nothing_beside_it(session, kube):
    access = services.candidate_access(run=session, seconds=600)
    assert (access.namespace, access.username) == (HOME, f"system:serviceaccount:{NAMESPACE}:platform-oncall")
    candidate = Kube(parse(access.kubeconfig))
    (pod,) = candidate.list("v1", "Pod", NAMESPACE)
    assert pod["metadata"]["name"] == NAME
    assert TELLS.search(str(pod)) is None
    assert candidate.run_command(NAMESPACE, NAME, NAME, ["kubectl", "get", "pods"]) == (
        0,
        f"No resources found in {HOME} namespace.\n",
    )
    assert candidate.list("v1", "Pod", HOME) == []
    for forbidden in (
        lambda: candidate.list("v1", "Secret", NAMESPACE),
        lambda: candidate.delete("v1", "Pod", NAME, NAMESPACE),
        lambda: candidate.create({**kube.get("v1", "Pod", NAME, NAMESPACE), "metadata": {"namespace": NAMESPACE}}),
        lambda: candidate.token_request(NAMESPACE, environment.SERVICE_ACCOUNT, seconds=600),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    services.revoke_access(run=session)
    with pytest.raises(Forbidden):
        candidate.run_command(NAMESPACE, NAME, NAME, ["true"])
    candidate.close()
    code, output = kube.run_command(NAMESPACE, NAME, NAME, ["kubectl", "get", "pods"])  # in a shell that is open
    assert (code, "Error from server (Forbidden): pods is forbidden" in output) == (1, True)

    before = session.fingerprint_before
    run = services.revert_run(run_id=session.pk, holder="test")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])
    assert fingerprint(kube, selectors.all_namespaces_of(run)) == before


def test_an_environment_without_a_toolbox_is_as_it_was_planned(db):
    rails = Guardrails.plan(tier="practice", home=HOME, gpus=1, rights=())
    plain, with_box = environment.changes([HOME], rails), environment.changes([HOME], rails, BOX)
    assert [change.target for change in plain if change.target.namespace == NAMESPACE] == []
    assert {change.target.kind for change in with_box if change.target.namespace == NAMESPACE} == {
        "NetworkPolicy",
        "Pod",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    }


def test_on_a_shared_cluster_the_toolbox_reaches_no_other_namespace():
    for tier, peers in (("shared", [HOME]), ("dedicated", None)):
        rails = Guardrails.plan(tier=tier, home=HOME, gpus=1, rights=())
        made = {str(change.target): change for change in environment.changes([HOME], rails, BOX)}
        egress = made[f"NetworkPolicy {NAMESPACE}/toolbox-egress"].object["spec"]["egress"]
        selector = egress[0]["to"][0]["namespaceSelector"]
        assert selector.get("matchExpressions", [{}])[0].get("values") == peers
        assert {port["port"] for port in egress[1]["ports"]} == {53, 443, 6443}


def test_a_real_cluster_has_a_toolbox_once_its_image_is_named(db, settings):
    lab = Cluster.objects.create(name="lab", tier=Cluster.Tier.DEDICATED)

    def planned():
        run = services.plan_environment_run(
            cluster=lab, namespaces=NAMESPACES, deadline=deadline(), toolbox_namespace=NAMESPACE
        )
        return selectors.toolbox_of(run)

    assert planned() is None
    settings.TOOLBOX_IMAGE = "registry.example.com/toolbox:1"
    assert planned() == Toolbox(NAMESPACE, "registry.example.com/toolbox:1")


def node(name, *, gpus="1", labels=(NODE_ROLE,), taints=(NODE_ROLE,), closed=False):
    return {
        "metadata": {"name": name, "labels": dict.fromkeys(labels, "")},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints], "unschedulable": closed},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}},
    }


def test_only_an_open_node_with_a_gpu_that_a_taint_keeps_free_is_there_for_toolboxes():
    others = [node("a", gpus="0"), node("b", labels=()), node("c", taints=()), node("d", closed=True)]
    assert nodes_for_toolboxes([*others, node("own")]) == ["own"]


def test_a_real_cluster_without_a_node_for_it_has_a_toolbox_that_says_what_it_lacks(db, settings):
    settings.TOOLBOX_IMAGE = "registry.example.com/toolbox:1"
    lab = Cluster.objects.create(name="lab", tier=Cluster.Tier.DEDICATED)
    asking = next(pack for pack in PACKS if pack.requires.toolbox_gpu)
    planned = {"cluster": lab, "namespaces": NAMESPACES, "deadline": deadline(), "packs": [asking]}
    without = selectors.toolbox_of(services.plan_environment_run(**planned))
    assert (without.gpu, without.tools[-1]) == (False, "python3")
    assert "without a GPU: no node with one has the label node-role.kubernetes.io/toolbox" in without.lack
    with_gpu = selectors.toolbox_of(services.plan_environment_run(**planned, toolbox_gpu=True))
    assert (with_gpu.tools[-1], with_gpu.lack) == ("nvidia-smi", "")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"containerStatuses": [{"state": {"running": {}}}]}, ""),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "ImagePullBackOff"),
        ({"conditions": [{"status": "False", "message": "0/3 nodes are available"}]}, "0/3 nodes are available"),
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled"),
        ({}, "Pending"),
    ],
)
def test_why_nobody_can_enter_is_told_in_the_clusters_words(status, why):
    assert why_not_running({"status": status}) == why
