"""The candidate's kubeconfig against the limits of the namespace, on the clusters of ``clusters.py``."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from faults import environment, guardrails, selectors, services
from faults.errors import Forbidden, Invalid
from faults.guardrails import Grant
from faults.injectors import isolation
from faults.injectors.isolation import NETWORK_POLICY
from faults.injectors.network import TENANTS
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.packs.rights import former_rules
from faults.services import PlannedFault
from faults.tests import hostile
from faults.tests.clusters import PRACTICE, REAL, TIERS, eventually, flat, refusal, refused
from faults.tests.conftest import deadline

pytestmark = pytest.mark.django_db
MIN_HOSTILE_PODS = 60


@pytest.fixture(params=TIERS)
def place(request):
    """A cluster with the environment of a session whose namespace nobody else has."""
    if request.param == "practice":
        cluster = request.getfixturevalue("cluster")
    else:
        request.getfixturevalue("real_node")
        cluster = services.lend_cluster(name="hostile", kubeconfig=flat(Path(REAL)))
    names = {"workloads": f"ml-{uuid.uuid4().hex[:8]}"}
    run = services.plan_environment_run(cluster=cluster, namespaces=names, deadline=deadline())
    everything = Grant(former_rules(names.values()))  # all workloads, config maps and services
    run.parameters = selectors.guardrails_of(run).with_grants([everything]).dump()
    run.save()
    yield services.inject_run(run_id=run.pk, holder="test")
    after = services.revert_run(run_id=run.pk, holder="test")
    assert after.residue == []


@pytest.fixture
def admin(place):
    return selectors.kube_for(place.cluster)


@pytest.fixture
def home(place):
    return selectors.namespaces_of(place)[0]


@pytest.fixture
def candidate(place):
    kube = Kube(parse(services.candidate_access(run=place, seconds=600).kubeconfig))
    yield kube
    kube.close()


def test_an_ordinary_pod_is_welcome_and_every_hostile_one_is_refused(admin, candidate, home):
    node = admin.list("v1", "Node")[0]["metadata"]["name"]
    attempts = [*hostile.pods(home, node), *hostile.objects(home)]
    assert sum(obj["kind"] == "Pod" for _, _, obj in attempts) >= MIN_HOSTILE_PODS
    answers = {title: (words, refusal(candidate, obj)) for title, words, obj in attempts}
    assert refusal(candidate, hostile.pod("ordinary", home)) == ""
    wrong = {title: pair for title, pair in answers.items() if not re.search(*pair)}
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_template_is_taken_but_its_pods_never_come(candidate, home):
    for kind in ("Deployment", "Job"):
        candidate.create(hostile.workload(kind, home, hostPID=True))
    words = eventually(
        lambda: [e["message"] for e in candidate.list("v1", "Event", home) if e["reason"] == "FailedCreate"]
    )
    assert all(hostile.PSS in line for line in words)
    assert candidate.list("v1", "Pod", home) == []


@pytest.mark.parametrize("replicas", [500, pytest.param(5000, marks=pytest.mark.torture)])
def test_a_deployment_of_too_many_stops_at_the_quota_until_its_namespace_is_gone(
    place, admin, candidate, home, replicas
):
    made = hostile.workload("Deployment", home)
    made["spec"]["replicas"] = replicas
    candidate.create(made)
    eventually(lambda: "exceeded quota" in json.dumps(candidate.list("apps/v1", "ReplicaSet", home)))
    assert 0 < len(candidate.list("v1", "Pod", home)) <= guardrails.MAX_PODS
    version = admin.list_page("v1", "Pod", home).resource_version
    services.revert_run(run_id=place.pk, holder="test")
    assert "ADDED" not in {event["type"] for event in seen_since(admin, f"/api/v1/namespaces/{home}/pods", version)}


def seen_since(kube, path, version):
    """Return what a watch tells of the time since a version."""
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
    return [json.loads(line) for line in kube._request("GET", path, query=query).splitlines()]


def test_what_is_there_cannot_be_changed_into_something_hostile(place, candidate, home):
    candidate.create(hostile.pod("mine", home))
    candidate.create({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "mine", "namespace": home},
        "spec": {"ports": [{"port": 80}]}})  # fmt: skip
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    debug = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox", "targetContainerName": "main"}]}}
    for kind, api_version, name, patch in (
        ("Namespace", "v1", home, label),
        ("Pod", "v1", "mine", {"spec": {"hostNetwork": True}}),
        ("Pod", "v1", "mine", {"spec": {"nodeName": "elsewhere"}}),
        ("Pod", "v1", "mine", {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
        ("Service", "v1", "mine", {"spec": {"externalIPs": ["10.0.0.1"]}}),
        ("Service", "v1", "mine", {"spec": {"type": "LoadBalancer"}}),
        ("ServiceAccount", "v1", "default", {"automountServiceAccountToken": True}),
        ("ResourceQuota", "v1", guardrails.QUOTA, {"spec": {"hard": {"pods": "9999"}}}),
        ("LimitRange", "v1", guardrails.LIMIT_RANGE, {"spec": {"limits": []}}),
        ("NetworkPolicy", "networking.k8s.io/v1", NETWORK_POLICY, {"spec": {"egress": [{}]}}),
        ("Role", "rbac.authorization.k8s.io/v1", environment.ROLE, {"rules": []}),
    ):
        with pytest.raises((Forbidden, Invalid)):
            candidate.patch(api_version, kind, name, "" if kind == "Namespace" else home, patch)
    with pytest.raises(Forbidden, match="ephemeralcontainers"):
        candidate._json(
            "PATCH", f"/api/v1/namespaces/{home}/pods/mine/ephemeralcontainers", body=debug,
            content_type="application/strategic-merge-patch+json",
        )  # fmt: skip
    for kind, api_version, name in (
        ("ResourceQuota", "v1", guardrails.QUOTA),
        ("LimitRange", "v1", guardrails.LIMIT_RANGE),
        ("NetworkPolicy", "networking.k8s.io/v1", NETWORK_POLICY),
        ("ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1", guardrails.POLICY),
        ("ValidatingAdmissionPolicyBinding", "admissionregistration.k8s.io/v1", guardrails.POLICY),
    ):
        with pytest.raises(Forbidden):
            candidate.delete(api_version, kind, name, home)


def test_at_the_end_the_token_may_do_nothing_and_after_the_release_it_is_nobodys(place, home):
    access = services.candidate_access(run=place, seconds=600)
    candidate = Kube(parse(access.kubeconfig))
    assert candidate.list("v1", "Pod", home) == []
    services.revoke_access(run=place)
    eventually(lambda: refused(candidate, home))
    services.restore_access(run=place)
    eventually(lambda: not refused(candidate, home))
    candidate.close()
    services.revert_run(run_id=place.pk, holder="test")
    context = ssl.create_default_context(cadata=access.ca_pem)
    request = urllib.request.Request(f"{access.server}/api", headers={"Authorization": f"Bearer {access.token}"})
    eventually(lambda: status_of(request, context) == 401)


@pytest.mark.parametrize("place", PRACTICE, indirect=True)  # on the real one no program runs
def test_pods_reach_each_other_and_names_but_neither_other_tenants_nor_the_metadata_server(admin, candidate, home):
    server = hostile.pod("server", home)
    server["spec"]["containers"][0] |= {"image": "python:3.9-slim", "command": ["python3", "-m", "http.server", "80"]}
    candidate.create(server)
    stranger = hostile.pod("stranger", "default")
    stranger["spec"] = server["spec"]
    admin.create(stranger)
    mine, theirs = address(admin, home, "server"), address(admin, "default", "stranger")
    tries = {"mine": mine, "theirs": theirs, "metadata": "169.254.169.254", "outside": "8.8.8.8"}
    lines = [f"wget -T 1 -q -O /dev/null http://{ip}/ && echo {name}" for name, ip in tries.items()]
    lines.append("nslookup kubernetes.default.svc.cluster.local >/dev/null && echo names")
    client = hostile.pod("client", home, restartPolicy="Never")
    client["spec"]["containers"][0]["command"] = ["sh", "-c", "; ".join([*lines, "echo done"])]
    candidate.create(client)
    eventually(lambda: candidate.get("v1", "Pod", "client", home)["status"].get("phase") == "Succeeded")
    said = candidate.logs(home, "client").splitlines()
    assert [line for line in said if "wget" not in line] == ["mine", "names", "done"]


def test_a_partition_leaves_the_isolation_of_the_namespace_as_it_was(place, admin, home):
    def specs():
        return {
            obj["metadata"]["name"]: obj["spec"] for obj in admin.list(isolation.API_VERSION, "NetworkPolicy", home)
        }

    before = specs()
    apart = {"namespace": home, "name": "rules", "partition": "custom", "source": {"app": "web"}, "block": "all"}
    step = {"kind": "network", "spec": {**apart, "dns": False, TENANTS: [home]}}
    planned = PlannedFault("network_custom-1", "network_custom", f"{home}/rules", [step], 600, namespace=home)
    services.inject_fault(cluster=place.cluster, planned=planned, by="tests", holder="test")
    between = specs()
    assert between.keys() - before.keys() == {"rules", "rules-others", "rules-others-2"}
    left = between[NETWORK_POLICY]
    assert (len(left["ingress"][0]["from"]), left.get("egress", []), left["policyTypes"]) == (
        1, [], ["Ingress", "Egress"],
    )  # fmt: skip
    second = {"kind": "network", "spec": {**step["spec"], "name": "more"}}
    with pytest.raises(Invalid):
        services.inject_fault(
            cluster=place.cluster,
            planned=replace(planned, fault_id="network_custom-2", steps=[second]),
            by="tests",
            holder="test",
        )
    assert specs() == between
    fault = services.recover_fault(cluster=place.cluster, fault_id="network_custom-1", holder="test")
    assert (fault.run.residue, specs()) == ([], before)


def address(kube, namespace, name):
    """Return where a pod is, once it runs."""

    def found():
        status = kube.get("v1", "Pod", name, namespace)["status"]
        return status.get("podIP") if status.get("phase") == "Running" else None

    return eventually(found)


def status_of(request, context):
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as exc:
        return exc.code
