"""The step ``terraform``: a pack's code is applied in the toolbox, and all of it is taken back."""

from __future__ import annotations

import pytest

from faults import packs, selectors, services
from faults.engine import fingerprint
from faults.engine.model import CommandLimits
from faults.errors import ClusterError, Conflict, NotFound
from faults.models import FaultRun, Scenario, ScenarioVersion
from faults.terraform_plans import TerraformPlans
from faults.terraform_state import read_state
from faults.tests import workspace_packs
from faults.tests.conftest import deadline
from faults.toolbox import NAME, NAMESPACE

pytestmark = pytest.mark.django_db
SPACES = {"workloads": "shift"}


@pytest.fixture
def planned(cluster):
    """Plan a session and its fault, after a change to the pack; return the fault."""

    def go(change=lambda document, found: None):
        return plan(cluster, change)[0]

    return go


@pytest.fixture
def in_turn(cluster):
    """Two faults of one session, of which the second goes on with the code of the first; the first is injected."""
    runs = plan(cluster, workspace_packs.with_few_resources, workspace_packs.building_on)
    services.inject_run(run_id=runs[0].pk, holder="test")
    return runs


def plan(cluster, *changes):
    """Plan a session, and a fault for each change of the pack."""
    found, until = [workspace_packs.files(change) for change in changes], deadline()
    made = [packs.parse(files) for files in found]
    session = services.plan_environment_run(cluster=cluster, namespaces=SPACES, deadline=until, packs=made)
    services.inject_run(run_id=session.pk, holder="test")
    runs = []
    for pack, files in zip(made, found, strict=True):
        version = ScenarioVersion.objects.create(
            scenario=Scenario.objects.create(slug=pack.slug),
            number=1,
            digest=packs.digest(files),
            files=files,
            title="x",
            minutes=20,
        )
        values = {"scenario_version": version, "parameters": {}, "seed": 1, "deadline": until}
        runs.append(services.plan_fault_run(cluster=cluster, namespaces=SPACES, **values))
    return runs


def revert(run):
    run = services.revert_run(run_id=run.pk, holder="test")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])


def counted(kube, namespace):
    """Return what the quota of a tenant counts."""
    return set(kube.get("v1", "ResourceQuota", "gpus", namespace)["spec"]["hard"])


def in_toolbox(kube, line):
    code, output = kube.run_command(NAMESPACE, NAME, NAME, ["bash", "-c", line], CommandLimits(seconds=60.0))
    assert code == 0, output
    return output


def _look_at_plans(kube):
    """Plan with another's lock on the state; what was deleted by hand is found, and the plan leaves no file."""
    meta = {"name": "lock-tfstate-default-tenants", "namespace": "platform"}
    kube.delete("coordination.k8s.io/v1", "Lease", meta["name"], "platform")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
    kube.create({**lease, "spec": {"holderIdentity": "somebody"}})
    files, plans = in_toolbox(kube, "find . /tmp | sort"), TerraformPlans()
    found = plans.newest(kube, "platform", "tenants")
    assert (found.text, found.drift) == ("no changes", ())
    kube.delete("rbac.authorization.k8s.io/v1", "ClusterRole", "job-launcher")
    found = plans.newest(kube, "platform", "tenants")
    assert found.text.startswith("1 to add, ")
    assert "kubernetes_cluster_role_v1.job_launcher" in found.drift
    assert in_toolbox(kube, "find . /tmp | sort") == files
    kube.delete("coordination.k8s.io/v1", "Lease", meta["name"], "platform")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(workspace_packs.with_few_resources, id="few resources"),
        pytest.param(lambda document, found: None, id="the platform", marks=pytest.mark.torture),
    ],
)
def test_code_is_applied_and_taken_back_with_what_a_candidate_made_of_it(planned, kube, change):
    run = planned(change)
    services.inject_run(run_id=run.pk, holder="test")
    run = services.confirm_symptom(run_id=run.pk, holder="test", timeout_s=30)
    assert run.status == FaultRun.Status.ACTIVE
    assert kube.get("v1", "Secret", "tfstate-default-tenants", "platform")["metadata"]["labels"]["tfstate"] == "true"
    assert kube.get("rbac.authorization.k8s.io/v1", "ClusterRole", "job-launcher")

    in_toolbox(kube, "sed -i 's/tenant-a = {/tenant-b = {/' platform/tenants/terraform.tfvars")
    in_toolbox(kube, "cd platform/tenants && terraform apply -auto-approve -no-color > out")
    assert kube.get("v1", "Namespace", "tenant-b")
    _look_at_plans(kube)

    run = services.revert_run(run_id=run.pk, holder="test")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])
    for name in ("tenant-a", "tenant-b"):
        with pytest.raises(NotFound):
            kube.get("v1", "Namespace", name)
    session = services.revert_run(run_id=selectors.environment_beside(run).pk, holder="test")
    assert (session.status, session.residue) == (FaultRun.Status.REVERTED, [])
    assert fingerprint(kube, selectors.all_namespaces_of(session)) == session.fingerprint_before


@pytest.mark.torture
def test_what_is_there_already_is_not_taken_over(planned, kube):
    run = planned()
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant-a"}})
    with pytest.raises(Conflict, match="Namespace tenant-a is there already"):
        services.inject_run(run_id=run.pk, holder="test")
    services.revert_run(run_id=run.pk, holder="test")
    assert kube.get("v1", "Namespace", "tenant-a")


@pytest.mark.torture
def test_code_that_fails_says_why_and_leaves_nothing(planned, kube):
    run = planned(lambda document, found: found.update({"workspace/tenants/wrong.tf": "resource {\n"}))
    with pytest.raises(ClusterError, match="In the toolbox: .*Error"):
        services.inject_run(run_id=run.pk, holder="test")
    run = services.revert_run(run_id=run.pk, holder="test")
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])


@pytest.mark.torture
def test_a_lock_that_a_dead_attempt_left_is_released_for_the_next(planned, kube):
    run = planned()
    spec = {"holderIdentity": "an-earlier-attempt"}
    meta = {"name": "lock-tfstate-default-tenants", "namespace": "platform"}
    kube.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})
    with pytest.raises(ClusterError, match="locked by an earlier attempt") as refused:
        services.inject_run(run_id=run.pk, holder="test")
    assert refused.value.retryable
    assert services.inject_run(run_id=run.pk, holder="test").injected_at


TWO = 'tenants = { tenant-a = { team = "v", gpus = 1 }, tenant-b = { team = "s", gpus = 1 } }'
ADD_TENANT = f"echo '{TWO}' > platform/tenants/terraform.tfvars"
OWN_LINE = "echo '# mine' >> platform/tenants/main.tf"
APPLY = "cd platform/tenants && terraform apply -auto-approve -no-color > out"


def test_a_later_fault_changes_the_code_that_the_candidate_has_worked_on(in_turn, kube):
    first, later = in_turn
    for line in (ADD_TENANT, APPLY, OWN_LINE):
        in_toolbox(kube, line)
    services.inject_run(run_id=later.pk, holder="test")
    (serial,) = (step.undo["made"]["tenants"]["serial"] for step in later.steps.all() if "made" in step.undo)
    assert serial == read_state(kube.get("v1", "Secret", "tfstate-default-tenants", "platform")).serial
    assert counted(kube, "tenant-a") == counted(kube, "tenant-b") == {"limits.nvidia.com/gpu"}
    assert in_toolbox(kube, "tail -n 1 platform/tenants/main.tf.yours") == "# mine\n"
    assert "tenant-b" in in_toolbox(kube, "cat platform/tenants/terraform.tfvars")
    assert in_toolbox(kube, "ls platform/tenants").split() == [
        "lead.tf",
        "main.tf",
        "main.tf.yours",
        "out",
        "providers.tf",
        "terraform.tfvars",
        "versions.tf",
    ]

    revert(later)
    assert counted(kube, "tenant-b") == {"requests.nvidia.com/gpu"}
    assert in_toolbox(kube, "tail -n 1 platform/tenants/main.tf") == "# mine\n"
    with pytest.raises(NotFound):
        kube.get("rbac.authorization.k8s.io/v1", "Role", "lead", "tenant-a")

    revert(first)
    session = services.revert_run(run_id=selectors.environment_beside(first).pk, holder="test")
    assert (session.status, session.residue) == (FaultRun.Status.REVERTED, [])
    assert fingerprint(kube, selectors.all_namespaces_of(session)) == session.fingerprint_before


class Died(BaseException):
    """A worker's death."""


@pytest.mark.torture
def test_an_attempt_that_died_is_gone_on_with(in_turn, kube):
    later, seen = in_turn[1], []

    def die_once_applied(name):
        seen.append(name)
        if seen.count("after-write") == len(selectors.changes_of(later)):
            raise Died

    in_toolbox(kube, OWN_LINE)
    with pytest.raises(Died):
        services.inject_run(run_id=later.pk, holder="test", failpoint=die_once_applied)
    assert services.inject_run(run_id=later.pk, holder="test").injected_at
    assert "main.tf.yours-2" not in in_toolbox(kube, "ls platform/tenants")
    revert(later)
    assert in_toolbox(kube, "tail -n 1 platform/tenants/main.tf") == "# mine\n"


@pytest.mark.torture
def test_whichever_of_two_faults_ends_first_nothing_is_left(in_turn, kube):
    first, later = in_turn
    services.inject_run(run_id=later.pk, holder="test")
    services.inject_run(run_id=later.pk, holder="test")
    revert(first)
    revert(later)
    assert not {"tenant-a", "tenant-b"} & {row["metadata"]["name"] for row in kube.list("v1", "Namespace")}
    revert(selectors.environment_beside(first))


@pytest.mark.torture
def test_code_older_than_what_was_applied_deletes_no_tenant(in_turn, kube):
    _, later = in_turn
    for line in (ADD_TENANT, APPLY, "sed -i 's/, tenant-b.*/ }/' platform/tenants/terraform.tfvars"):
        in_toolbox(kube, line)
    with pytest.raises(ClusterError, match="older than what was applied"):
        services.inject_run(run_id=later.pk, holder="test")
    assert kube.get("v1", "Namespace", "tenant-b")


@pytest.mark.torture
def test_a_lock_of_the_candidates_is_waited_for(in_turn, kube):
    spec, meta = {"holderIdentity": "theirs"}, {"name": "lock-tfstate-default-tenants", "namespace": "platform"}
    kube.delete("coordination.k8s.io/v1", "Lease", meta["name"], meta["namespace"])
    kube.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec})
    with pytest.raises(ClusterError, match="somebody's Terraform is at work") as refused:
        services.inject_run(run_id=in_turn[1].pk, holder="test")
    assert refused.value.retryable
    assert kube.get("coordination.k8s.io/v1", "Lease", meta["name"], meta["namespace"])["spec"] == spec
