"""A scenario's rights in a session: given with its faults, cut with the access, gone with the environment."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import yaml

from faults import packs, selectors, services
from faults.errors import FaultError, Forbidden, NotYet
from faults.guardrails import Grant
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun, Step
from faults.tests.conftest import NAMESPACES, deadline
from faults.tests.variants import CATALOG, FIRST_PACK

pytestmark = pytest.mark.django_db
IMAGES = FIRST_PACK
HOME, RBAC = NAMESPACES["workloads"], "rbac.authorization.k8s.io"
WORKLOADS = "${namespace.workloads}"
NUMBERS = itertools.count(1)
QUOTAS = {"namespaces": [WORKLOADS], "resources": ["resourcequotas"], "verbs": ["get", "list", "patch"]}
MONITORING = {"namespaces": ["monitoring"], "resources": ["pods", "configmaps"], "verbs": ["get", "list", "delete"]}
BINDINGS = {
    "resources": [f"clusterrolebindings.{RBAC}", f"clusterroles.{RBAC}"],
    "verbs": ["get", "list", "create", "update", "patch", "delete"],
}


@pytest.fixture
def plan(tmp_path, db):
    """Plan a scenario with these rights, whose fault is a label on a cluster role."""

    def go(cluster, *rights):
        files = packs.load_folder(CATALOG / "architecture-mismatch")
        document = yaml.safe_load(files["scenario.yaml"])
        slug = f"rights-{next(NUMBERS)}"
        target = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "name": "view"}
        fault = {"kind": "patch", "target": target, "patch": {"metadata": {"labels": {slug: "on"}}}}
        document |= {"slug": slug, "rights": list(rights), "existing": ["monitoring"]}
        document |= {"requires": {**document["requires"], "tiers": ["practice", "dedicated"]}}
        kept = {name: text for name, text in files.items() if not name.startswith("manifests/")}
        document["inject"] = [fault]
        for name, text in (kept | {"scenario.yaml": yaml.safe_dump(document)}).items():
            path = tmp_path / slug / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        version = next(v for v in services.seed_catalog(folder=tmp_path) if v.scenario.slug == slug)
        values = {"namespaces": NAMESPACES, "parameters": {}, "seed": 1, "deadline": deadline()}
        return services.plan_fault_run(cluster=cluster, scenario_version=version, **values)

    return go


@pytest.fixture
def scenario(plan, cluster):
    return partial(plan, cluster)


@pytest.fixture
def candidate(environment):
    """The candidate's client, with the token they had from the beginning."""
    kube = Kube(parse(services.candidate_access(run=environment, seconds=3600).kubeconfig))
    yield kube
    kube.close()


def inject(run):
    return services.inject_run(run_id=run.pk, holder="w")


def revert(run):
    run = services.revert_run(run_id=run.pk, holder="w")
    return str(run.status), run.residue


def revert_at_last(run):
    """Revert, and say that residue was waited for long enough."""
    while True:
        try:
            return services.revert_run(run_id=run.pk, holder="w", hold_s=0.5).residue
        except NotYet:
            long_ago = datetime.now(UTC) - timedelta(seconds=20)
            FaultRun.objects.filter(pk=run.pk).update(settling_at=long_ago)


def may(candidate, verb, resource, namespace="", group=""):
    asked = {"verb": verb, "resource": resource, "namespace": namespace, "group": group}
    spec = {"resourceAttributes": asked}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    return candidate.create(body)["status"]["allowed"]


GIVEN = [
    ("patch", "resourcequotas", HOME),
    ("delete", "configmaps", "monitoring"),
    ("create", "clusterrolebindings", "", RBAC),
]


SECOND_FIRST = pytest.param(("second", "first"), marks=pytest.mark.torture)


@pytest.mark.parametrize("order", [("first", "second"), SECOND_FIRST])
def test_rights_come_with_the_faults_are_cut_with_the_access_and_leave_nothing(
    order, environment, scenario, candidate, kube
):
    """Two scenarios with different rights on one cluster role, which both change."""
    runs = {
        "first": scenario(QUOTAS, {**BINDINGS, "verbs": ["get", "patch"], "names": ["view"]}, MONITORING),
        "second": scenario(BINDINGS, {**MONITORING, "verbs": ["watch"]}),
    }
    assert [may(candidate, *right) for right in GIVEN] == [False, False, False]
    inject(runs["first"])
    assert [may(candidate, *right) for right in GIVEN] == [True, True, False]
    inject(runs["second"])
    assert [may(candidate, *right) for right in GIVEN] == [True, True, True]
    assert not may(candidate, "list", "secrets", "monitoring")
    journal = {f"{step.target['kind']} {step.target['namespace']}" for step in environment.steps.all()}
    assert {"RoleBinding monitoring", "Role monitoring", f"RoleBinding {HOME}", "ClusterRoleBinding "} <= journal

    grants = services.candidate_grants(run=FaultRun.objects.get(pk=environment.pk))
    assert len(grants.records) == 7
    grants.revoke()
    assert not any(may(candidate, *right) for right in [*GIVEN, ("list", "pods", HOME)])
    services.note_access_revoked(run=environment)
    services.restore_access(run=environment)
    assert all(may(candidate, *right) for right in [*GIVEN, ("list", "pods", HOME)])

    assert len(labels_of_view(kube)) == 2
    for name in order:
        assert revert(runs[name]) == ("reverted", [])
        assert may(candidate, *GIVEN[2])  # until the end
    assert labels_of_view(kube) == []
    assert revert(environment) == ("reverted", [])


def labels_of_view(kube):
    labels = kube.get(f"{RBAC}/v1", "ClusterRole", "view")["metadata"]["labels"]
    return [label for label in labels if label.startswith("rights-")]


def test_what_comes_while_the_access_is_closed_waits_for_it(environment, scenario, candidate):
    services.revoke_access(run=environment)
    services.note_access_revoked(run=environment)
    inject(scenario(QUOTAS))
    assert not may(candidate, "list", "pods", HOME)
    assert not may(candidate, *GIVEN[0])
    services.restore_access(run=environment)
    assert may(candidate, *GIVEN[0])


@pytest.mark.torture
def test_granting_goes_on_where_a_worker_died(environment, scenario, candidate):
    run = scenario(QUOTAS)
    services.grant_rights(run=run)
    Step.objects.filter(run=environment, target__kind="RoleBinding", index__gt=15).delete()
    services.grant_rights(run=run)
    assert may(candidate, *GIVEN[0])
    assert services.number_of_grants(run=FaultRun.objects.get(pk=environment.pk)) == 1


@pytest.mark.torture
def test_a_scenario_adds_only_what_the_session_does_not_have(environment, scenario):
    services.grant_rights(run=scenario(QUOTAS, MONITORING))
    before = environment.steps.count()
    services.grant_rights(run=scenario({**QUOTAS, "verbs": ["list"]}, {**MONITORING, "resources": ["pods"]}))
    assert environment.steps.count() == before
    services.grant_rights(run=scenario({**QUOTAS, "verbs": ["list", "update"]}))
    environment.refresh_from_db()
    last = selectors.guardrails_of(environment).grants[-1].rules
    assert list(map(str, last)) == [f"update resourcequotas in {HOME}"]


@pytest.mark.torture
def test_limits_are_lifted_later_too_where_a_scenario_asks_for_it(environment, scenario, candidate, kube):
    spec = {"containers": [{"name": "c", "image": "busybox", "securityContext": {"privileged": True}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": HOME}, "spec": spec}
    with pytest.raises(Forbidden, match="PodSecurity"):
        candidate.create(pod, dry_run=True)
    run = scenario("privileged-pods", "direct-placement", "ephemeral-containers")
    inject(run)
    assert candidate.create(pod, dry_run=True)["spec"]["containers"][0]["securityContext"] == {"privileged": True}
    policies = kube.list("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    assert "nodeName may not be set" not in str([policy["spec"] for policy in policies])
    assert may(candidate, "patch", "pods", HOME)
    assert revert(run) == revert(environment) == ("reverted", [])


def granting(subjects, role="view", name="mine"):
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    meta = {"name": name}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": reference,
        "subjects": subjects,
    }


def test_nobody_gives_themselves_what_would_outlive_their_access(environment, scenario, candidate):
    """With every verb on roles and bindings, and the right to bind any role."""
    inject(scenario({**BINDINGS, "verbs": [*BINDINGS["verbs"], "bind", "escalate"]}))
    groups = ("system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:masters")
    account = {"kind": "ServiceAccount", "name": "platform-oncall", "namespace": HOME}
    users = [{"kind": "User", "apiGroup": RBAC, "name": f"system:serviceaccount:{HOME}:platform-oncall"}]
    for subject in [account, *users, *({"kind": "Group", "apiGroup": RBAC, "name": name} for name in groups)]:
        with pytest.raises(Forbidden, match="to service accounts, and not to your own"):
            candidate.create(granting([subject]))
        patch = {"subjects": [{**account, "name": "trainer"}, subject]}
        with pytest.raises(Forbidden, match="not to your own"):
            candidate.patch(f"{RBAC}/v1", "ClusterRoleBinding", "system:basic-user", "", patch)
    rule = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
    with pytest.raises(Forbidden, match="roles of the system may not be changed"):
        candidate.patch(f"{RBAC}/v1", "ClusterRole", "system:basic-user", "", rule)
    assert candidate.create(granting([{**account, "name": "trainer"}]))["subjects"][0]["name"] == "trainer"


MAKING = ("pods", "pods/ephemeralcontainers", "deployments.apps", "daemonsets.apps", "cronjobs.batch")
SHELL = {
    "name": "main",
    "image": "busybox",
    "command": ["cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"],
}
TAKING = (  # patches of the pods of a workload
    {"serviceAccountName": "prometheus", "serviceAccount": "prometheus"},
    {"automountServiceAccountToken": True},
    {"hostIPC": True},
    {"initContainers": [SHELL]},
    {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    {"containers": [{"name": "node-exporter", "command": SHELL["command"]}]},
    {"containers": [{"name": "node-exporter", "securityContext": {"privileged": True}}]},
    {"tolerations": None, "securityContext": {"runAsUser": 0}},
)
PLACING = {
    "metadata": {"annotations": {"prometheus.io/scrape": "true"}, "labels": {"team": "gpu"}},
    "spec": {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
}


def test_nobody_takes_the_account_of_a_workload_that_is_not_theirs(environment, scenario, candidate, kube):
    """Its token would outlive their access. Where its pods run, and what marks them, may be changed."""
    inject(
        scenario({"namespaces": ["monitoring"], "resources": list(MAKING), "verbs": ["create", "update", "patch"]})
    )
    daemons = ("apps/v1", "DaemonSet", "prometheus-node-exporter", "monitoring")
    for spec in TAKING:
        with pytest.raises(Forbidden, match="outside your own namespaces, pods may change in their labels"):
            candidate.patch(*daemons, {"spec": {"template": {"spec": spec}}}, patch_type="strategic")
    placed = candidate.patch(*daemons, {"spec": {"template": PLACING}}, dry_run=True)
    assert placed["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    pod = kube.list("v1", "Pod", "monitoring")[0]["metadata"]["name"]
    debugger = {"spec": {"ephemeralContainers": [SHELL]}}
    with pytest.raises(Forbidden, match="outside your own namespaces"):
        candidate.patch("v1", "Pod", f"{pod}/ephemeralcontainers", "monitoring", debugger, patch_type="strategic")
    assert candidate.patch("v1", "Pod", pod, "monitoring", {"metadata": {"labels": {"team": "gpu"}}}, dry_run=True)
    template = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [SHELL], "restartPolicy": "Never"}}
    job = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    for version, kind, body in (("v1", "Pod", template["spec"]), ("batch/v1", "CronJob", job)):
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": "mine", "namespace": "monitoring"}}
        with pytest.raises(Forbidden, match="workloads and pods are made in your own namespaces only"):
            candidate.create({**made, "spec": body})


def test_a_shared_cluster_grants_nothing_of_the_deny_list_even_if_it_is_in_the_database(plan):
    """No cluster is asked."""
    shared = Cluster.objects.create(name="shared", tier=Cluster.Tier.SHARED)
    environment = services.plan_environment_run(cluster=shared, namespaces=NAMESPACES, deadline=deadline())
    FaultRun.objects.update(status=FaultRun.Status.ACTIVE)
    run = plan(shared, BINDINGS)
    with pytest.raises(FaultError, match="what nobody may do on a shared cluster: get clusterrolebindings"):
        services.grant_rights(run=run)
    grant = Grant(selectors.bound_pack(run).access)
    forged = selectors.guardrails_of(environment).with_grants([grant]).dump()
    FaultRun.objects.filter(pk=environment.pk).update(parameters=forged)
    with pytest.raises(FaultError, match="what nobody may do on a shared cluster"):
        services.restore_access(run=environment)
    assert not environment.steps.exists()


CONFIG = {"apiVersion": "v1", "data": {"a": "b"}}


def config(name, kind="ConfigMap"):
    return {**CONFIG, "kind": kind, "metadata": {"name": name, "namespace": "monitoring"}}


@pytest.fixture
def lasting(environment, scenario):
    """An environment in a cluster that stays, with the rights to make config maps in monitoring, and bindings."""
    Cluster.objects.filter(pk=environment.cluster_id).update(tier=Cluster.Tier.DEDICATED)
    asking = {"resources": ["subjectaccessreviews.authorization.k8s.io"], "verbs": ["create"]}  # kept by no cluster
    made = {**MONITORING, "verbs": ["create", "delete"]}
    run = scenario(made, {**BINDINGS, "verbs": ["create", "bind"]}, asking)
    run.cluster.refresh_from_db()
    inject(run)
    yield run
    Cluster.objects.filter(pk=environment.cluster_id).update(tier=Cluster.Tier.PRACTICE)


def test_what_a_candidate_made_in_a_cluster_that_stays_goes_with_the_session(lasting, environment, candidate, kube):
    candidate.create(config("theirs"), field_manager="kubectl-create")
    account = {"kind": "ServiceAccount", "name": "trainer", "namespace": HOME}
    candidate.create(granting([account]), field_manager="kubectl-client-side-apply")
    assert revert(lasting) == ("reverted", [])
    assert revert(environment) == ("reverted", [])
    assert not [obj for obj in kube.list("v1", "ConfigMap", "monitoring") if obj["metadata"]["name"] == "theirs"]


@pytest.mark.torture
def test_what_others_may_have_made_is_told_with_the_command_that_removes_it(lasting, environment, kube):
    kube.create(config("others"), field_manager="config-operator")
    kube.create(config("another-kind", "Secret") | {"data": {}}, field_manager="kubectl-create")
    assert revert(lasting) == ("reverted", [])
    assert revert_at_last(environment) == [
        "v1/ConfigMap monitoring/others is left over; run: kubectl delete configmap others -n monitoring",
        "v1/Secret monitoring/another-kind is left over; run: kubectl delete secret another-kind -n monitoring",
    ]
    for kind, name in (("ConfigMap", "others"), ("Secret", "another-kind")):
        kube.delete("v1", kind, name, "monitoring")
