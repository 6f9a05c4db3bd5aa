"""What Terraform's account has in the cloud, and what it has bound, ends with the candidate's access."""

from __future__ import annotations

import pytest

from faults import terraform_access
from faults.injectors import cloud_changes
from faults.packs import Workspace
from faults.terraform_state import secret_name

PROJECT, RBAC = "ml-prod", "rbac.authorization.k8s.io"
ROLES = ("roles/browser", "roles/compute.securityAdmin")
WORKSPACE = Workspace("platform", ("tenant-a",), (("ClusterRoleBinding", "launcher"),), (), ROLES)
TERRAFORM = cloud_changes.workload(PROJECT, "toolbox/terraform")
OWN = [
    cloud_changes.workload(PROJECT, "toolbox/platform-oncall"),
    cloud_changes.workload(PROJECT, "tenant-a/workload"),
    "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/x/subject/ns/toolbox/sa/own",
    "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/x/namespace/tenant-a",
]
LAUNCHER = {"kind": "ServiceAccount", "name": "launcher", "namespace": "platform"}
WORKLOAD = {"kind": "ServiceAccount", "name": "workload", "namespace": "tenant-a"}
GROUP = {"kind": "Group", "name": "engineers", "apiGroup": RBAC}


def binding(kind, name, subjects, **where):
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    meta = {"name": name, **where}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": subjects}


def of_bindings(kube):
    """Return annotations and subjects of all bindings by name."""
    found = [*kube.list(f"{RBAC}/v1", "RoleBinding"), *kube.list(f"{RBAC}/v1", "ClusterRoleBinding")]
    return {
        (row["metadata"].get("namespace"), row["metadata"]["name"]): (
            row["metadata"].get("annotations") or {},
            sorted(subject["name"] for subject in row.get("subjects") or []),
        )
        for row in found
    }


@pytest.fixture
def applied(kube):
    for name in ("platform", "tenant-a", "elsewhere"):
        kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    kube.create(binding("RoleBinding", "mixed", [WORKLOAD, GROUP], namespace="tenant-a"))
    kube.create(binding("RoleBinding", "mixed", [WORKLOAD], namespace="platform"))
    kube.create(binding("RoleBinding", "others", [WORKLOAD], namespace="elsewhere"))
    kube.create(binding("ClusterRoleBinding", "launcher", [LAUNCHER, WORKLOAD]))
    kube.create(binding("ClusterRoleBinding", "others", [WORKLOAD]))
    meta = {"name": secret_name("cloud"), "namespace": "platform"}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    cloud_changes.grant(kube, PROJECT, TERRAFORM, ROLES)
    return kube


def test_bindings_keep_who_is_no_account_of_the_tenants_and_get_the_others_back(applied):
    before = of_bindings(applied)
    terraform_access.cut(applied, WORKSPACE, "toolbox")
    terraform_access.cut(applied, WORKSPACE, "toolbox")
    subjects = {name: subjects for name, (_, subjects) in of_bindings(applied).items()}
    assert subjects["tenant-a", "mixed"] == ["engineers"]
    assert subjects["platform", "mixed"] == []
    assert subjects[None, "launcher"] == ["launcher"]
    assert subjects["elsewhere", "others"] == subjects[None, "others"] == ["workload"]
    assert not terraform_access.is_whole(applied, WORKSPACE, "toolbox")

    terraform_access.give_back(applied, WORKSPACE, "toolbox")
    assert of_bindings(applied) == before
    assert terraform_access.is_whole(applied, WORKSPACE, "toolbox")


def test_accounts_of_toolbox_and_tenants_lose_every_role_in_the_cloud_and_terraform_gets_its_own_back(applied):
    others = cloud_changes.workload(PROJECT, "elsewhere/workload")
    for member in (*OWN, others):
        cloud_changes.grant(applied, PROJECT, member, ["roles/owner"])
    terraform_access.cut(applied, WORKSPACE, "toolbox")
    assert not any(cloud_changes.roles_of(applied, PROJECT, member) for member in (TERRAFORM, *OWN))
    assert cloud_changes.roles_of(applied, PROJECT, others) == {"roles/owner"}
    assert not terraform_access.is_whole(applied, WORKSPACE, "toolbox")

    terraform_access.give_back(applied, WORKSPACE, "toolbox")
    assert cloud_changes.roles_of(applied, PROJECT, TERRAFORM) == set(ROLES)
    assert not any(cloud_changes.roles_of(applied, PROJECT, member) for member in OWN)


def test_an_account_that_the_candidate_has_deleted_is_in_nobodys_way(applied):
    launcher = f"job-launcher@{PROJECT}.iam.gserviceaccount.com"
    applied.cloud("DELETE", f"/iam/v1/projects/{PROJECT}/serviceAccounts/{launcher}")
    terraform_access.cut(applied, WORKSPACE, "toolbox")
    assert cloud_changes.roles_of(applied, PROJECT, TERRAFORM) == set()


def test_before_anything_is_applied_there_is_nothing_to_give_back(kube):
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "platform"}})
    assert terraform_access.is_whole(kube, WORKSPACE, "toolbox")
    terraform_access.give_back(kube, WORKSPACE, "toolbox")
    assert cloud_changes.roles_of(kube, PROJECT, TERRAFORM) == set()
