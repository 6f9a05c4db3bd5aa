"""The step ``terraform``: a pack's code is applied in the toolbox, and all of it is taken back."""

from __future__ import annotations

import pytest

from faults import packs, selectors, services
from faults.engine import fingerprint
from faults.engine.model import CommandLimits
from faults.errors import ClusterError, Conflict, NotFound
from faults.models import FaultRun, Scenario, ScenarioVersion
from faults.tests import workspace_packs
from faults.tests.conftest import deadline
from faults.toolbox import NAME, NAMESPACE

pytestmark = pytest.mark.django_db
SPACES = {"workloads": "shift"}


@pytest.fixture
def planned(cluster):
    """Plan a session and its fault, after a change to the pack; return the fault."""

    def go(change=lambda document, found: None):
        files = workspace_packs.files(change)
        scenario = Scenario.objects.create(slug="small-quota")
        version = ScenarioVersion.objects.create(
            scenario=scenario, number=1, digest=packs.digest(files), files=files, title="x", minutes=20
        )
        until = deadline()
        session = services.plan_environment_run(
            cluster=cluster, namespaces=SPACES, deadline=until, packs=[packs.parse(files)]
        )
        services.inject_run(run_id=session.pk, holder="test")
        return services.plan_fault_run(
            cluster=cluster, scenario_version=version, namespaces=SPACES, parameters={}, seed=1, deadline=until
        )

    return go


def in_toolbox(kube, line):
    code, output = kube.run_command(NAMESPACE, NAME, NAME, ["bash", "-c", line], CommandLimits(seconds=60.0))
    assert code == 0, output
    return output


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
    kube.delete("rbac.authorization.k8s.io/v1", "ClusterRole", "job-launcher")

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
