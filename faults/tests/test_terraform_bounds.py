"""Hostile use of Terraform's account: roles, bindings and impersonation that lead out of the session, all refused.

On the clusters of ``clusters.py``: a practice cluster, and a real control plane where there is one.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from faults import packs, selectors, services
from faults.errors import ClusterError, NotFound
from faults.kube.client import Kube
from faults.kube.config import parse, render
from faults.terraform_account import NAME
from faults.tests import hostile, workspace_packs
from faults.tests.clusters import REAL, TIERS, eventually, flat
from faults.tests.conftest import deadline
from faults.tests.variants import PACKS
from faults.toolbox import NAMESPACE, PRACTICE_IMAGE

pytestmark = pytest.mark.django_db
RBAC = "rbac.authorization.k8s.io"
ENFORCE = "pod-security.kubernetes.io/enforce"
TENANT, STATE, LAUNCHER = "tenant-a", "platform", "job-launcher"
ACCOUNT, PERSON, GROUP = "workload", "mia@vision.example.com", "vision-engineers"
CAN_BE = {"serviceaccounts": ACCOUNT, "users": PERSON, "groups": GROUP}
USER = {"kind": "User", "apiGroup": RBAC, "name": PERSON}
MEMBERS = {"kind": "Group", "apiGroup": RBAC, "name": GROUP}
ELSEWHERE = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
TENANTS_OWN = ELSEWHERE | {"namespace": TENANT}
BOUND = (USER, MEMBERS, TENANTS_OWN)
EVERY = ["*"]
ALL = [{"apiGroups": EVERY, "resources": EVERY, "verbs": EVERY}]
WORKLOADS = [
    {"apiGroups": [""], "resources": ["pods", "pods/exec"], "verbs": EVERY},
    {"apiGroups": ["apps", "batch"], "resources": EVERY, "verbs": EVERY},
]
INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"name": "own", "namespace": TENANT},
    "spec": {"defaultBackend": {"service": {"name": "own", "port": {"number": 80}}}},
}
REACHING_FARTHER = (
    *(("", [resource], EVERY) for resource in ("users", "groups", "serviceaccounts/token", "nodes/proxy")),
    *(("", [resource], ["list"]) for resource in ("*", "*/log", "configmaps", "persistentvolumes", "secrets")),
    ("authentication.k8s.io", ["userextras/scopes"], EVERY),
    ("management.cattle.io", ["tokens"], ["list"]),
    ("apps", ["deployments"], ["impersonate"]),
)


def with_impersonation(document, found):
    workspace_packs.with_few_resources(document, found)
    document["rights"] = [
        {"resources": [resource], "verbs": ["impersonate"], "names": [name]} for resource, name in CAN_BE.items()
    ]


PACK = packs.parse(workspace_packs.files(with_impersonation))


@pytest.fixture(params=TIERS)
def place(request, settings):
    """A session whose candidate may impersonate people and an account, with a workspace."""
    if request.param == "practice":
        cluster = request.getfixturevalue("cluster")
    else:
        request.getfixturevalue("real_node")
        settings.TOOLBOX_IMAGE = PRACTICE_IMAGE
        cluster = services.lend_cluster(name="bounds", kubeconfig=flat(Path(REAL)))
    run = services.plan_environment_run(
        cluster=cluster, namespaces=PACK.namespaces, deadline=deadline(), packs=[PACK], access=PACK.access
    )
    yield services.inject_run(run_id=run.pk, holder="test")
    delete_what_terraform_made(selectors.kube_for(cluster))
    assert services.revert_run(run_id=run.pk, holder="test").residue == []


def delete_what_terraform_made(admin):
    for kind, name in (("ClusterRoleBinding", LAUNCHER), ("ClusterRole", LAUNCHER), ("Namespace", TENANT)):
        with suppress(NotFound):
            admin.delete("v1" if kind == "Namespace" else f"{RBAC}/v1", kind, name)
    eventually(lambda: TENANT not in [each["metadata"]["name"] for each in admin.list("v1", "Namespace")])


@pytest.fixture
def admin(place):
    return selectors.kube_for(place.cluster)


@pytest.fixture
def terraform(place, admin):
    """The client of Terraform's account, once the policies hold, and with a namespace."""
    token, _ = admin.token_request(NAMESPACE, NAME, seconds=600)
    access = {"server": admin.access.server, "ca_pem": admin.access.ca_pem, "token": token}
    kube = Kube(parse(render(**access, namespace=STATE, user="me", cluster="c")))
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {ENFORCE: "baseline"}}}
    eventually(lambda: "these namespaces only" in refusal(partial(kube.create, dry_run=True), other))
    kube.create({**other, "metadata": other["metadata"] | {"name": TENANT}})
    yield kube
    kube.close()


@pytest.fixture
def impersonate(place):
    """Return a function that makes the candidate's client impersonate somebody."""
    made = []

    def client(user, group=""):
        made.append(Kube(parse(services.candidate_access(run=place, seconds=600).kubeconfig)))
        made[-1]._headers |= {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
        return made[-1]

    yield client
    for kube in made:
        kube.close()


def refusal(call, *arguments):
    """Return the words of a refusal; empty where there was none."""
    try:
        call(*arguments)
    except ClusterError as error:
        return error.message
    return ""


def role(rules, namespace="", **fields):
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": LAUNCHER, "labels": fields.pop("labels", {}), **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, "rules": rules, **fields}


def binding(*subjects, namespace=""):
    made = role([], namespace)
    reference = {"apiGroup": RBAC, "kind": made["kind"], "name": LAUNCHER}
    del made["rules"]
    return {**made, "kind": f"{made['kind']}Binding", "roleRef": reference, "subjects": list(subjects)}


def workload(namespace):
    made = hostile.workload("Job", namespace)
    return made | {"metadata": made["metadata"] | {"name": "own"}}


def service(**fields):
    meta = {"name": "own", "namespace": TENANT}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}], **fields}}


def test_a_cluster_role_lists_workloads_only_and_takes_no_rules_of_others(terraform):
    farther = [[{"apiGroups": [group], "resources": which, "verbs": may}] for group, which, may in REACHING_FARTHER]
    for listed in (*farther, ALL, [{"nonResourceURLs": EVERY, "verbs": ["get"]}]):
        words = refusal(terraform.create, role(listed))
        assert "may reach workloads only" in words or "may not grant" in words, listed
    everything = {"clusterRoleSelectors": [{"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}
    for fields in ({"aggregationRule": everything}, {"labels": {f"{RBAC}/aggregate-to-view": "true"}}):
        assert "may not be aggregated" in refusal(terraform.create, role(WORKLOADS, **fields))
    assert refusal(terraform.create, role(WORKLOADS)) == ""
    for patch in ({"aggregationRule": everything}, {"metadata": {"labels": {f"{RBAC}/aggregate-to-edit": "true"}}}):
        words = refusal(terraform.patch, f"{RBAC}/v1", "ClusterRole", LAUNCHER, "", patch)
        assert "may not be aggregated" in words
    words = refusal(terraform.patch, f"{RBAC}/v1", "ClusterRole", LAUNCHER, "", {"rules": ALL})
    assert "may reach workloads only" in words


def test_no_account_of_another_namespace_is_given_access_but_one_of_the_code_that_nobody_can_be(terraform):
    for namespace in ("", TENANT, STATE):
        terraform.create(role(WORKLOADS, namespace))
        words = refusal(terraform.create, binding(ELSEWHERE, namespace=namespace))
        assert "service accounts of other namespaces" in words
    assert refusal(terraform.create, binding(ELSEWHERE | {"name": LAUNCHER}, *BOUND)) == ""


def test_people_and_accounts_with_every_right_stay_in_the_tenants_namespaces(terraform, impersonate):
    terraform.create(role(WORKLOADS))
    terraform.create(binding(*BOUND))
    terraform.create(role(ALL, TENANT))
    terraform.create(binding(*BOUND, namespace=TENANT))
    member = impersonate(f"system:serviceaccount:default:{ACCOUNT}", GROUP)
    tenant = impersonate(f"system:serviceaccount:{TENANT}:{ACCOUNT}")
    for who, words in (
        (impersonate(PERSON), "the tenants' people"),
        (member, "the tenants' people"),
        (tenant, "accounts of Terraform's namespaces"),
    ):
        for call, *arguments in (
            (who.create, workload("kube-system")),
            (who.create, workload(STATE)),
            (who._request, "POST", f"/api/v1/namespaces/{NAMESPACE}/pods/toolbox/exec?command=id"),
            (who.patch, "v1", "Namespace", TENANT, "", {"metadata": {"labels": {ENFORCE: "privileged"}}}),
            (who.create, binding(USER, namespace=TENANT) | {"metadata": {"name": "own", "namespace": TENANT}}),
            (who.delete, f"{RBAC}/v1", "Role", LAUNCHER, TENANT),
        ):
            assert words in refusal(call, *arguments), (words, arguments)
        for fields in ({"externalIPs": ["192.0.2.7"]}, {"type": "NodePort"}, {"type": "LoadBalancer"}):
            assert "neither external IPs nor load balancers" in refusal(who.create, service(**fields))
        assert "of these API groups only: core, apps" in refusal(who.create, INGRESS)
        assert refusal(who.create, service()) == refusal(who.delete, "v1", "Service", "own", TENANT) == ""
        assert refusal(who.create, workload(TENANT)) == ""
        assert refusal(who.delete, "batch/v1", "Job", "own", TENANT) == ""


def test_no_candidate_can_be_an_account_of_the_code_outside_of_its_namespace():
    """Such an account may be given access in any namespace, where nothing holds it back."""
    for pack in PACKS:
        objects = pack.workspace.objects if pack.workspace else ()
        named = {name for kind, name in objects if kind == "ServiceAccount"}
        for rule in pack.access:
            if "impersonate" in rule.verbs and "serviceaccounts" in rule.resources:
                assert rule.names
                assert rule.namespaces == (STATE,) or not named & set(rule.names)
