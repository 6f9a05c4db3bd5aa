"""The Terraform workspace of a pack: merged with the platform's code, checked by name, filled in for a variant."""

from __future__ import annotations

import pytest

from faults.clashes import clash
from faults.injectors import changes
from faults.packs import PackError, load_folder, parse
from faults.packs.workspaces import BASE, MAX_BYTES, together
from faults.tests import workspace_packs
from faults.tests.variants import PACKS


def test_a_pack_keeps_the_platforms_code_below_its_own_files(tmp_path):
    (tmp_path / "workspace" / "tenants").mkdir(parents=True)
    (tmp_path / "workspace" / "tenants" / "terraform.tfvars").write_text("tenants = {}\n")
    found = load_folder(tmp_path)
    assert found["workspace/tenants/terraform.tfvars"] == "tenants = {}\n"
    assert found["workspace/modules/tenant/quota.tf"] == (BASE / "modules/tenant/quota.tf").read_text()


def test_parameters_are_filled_in_and_what_is_terraforms_own_stays():
    pack = parse(workspace_packs.files()).bind(parameters={"gpus": "3"})
    *reserved, apply = changes(pack.inject)
    assert "gpus = 3\n" in apply.code["workspace/tenants/terraform.tfvars"]
    assert '"${var.name_prefix}job-launcher"' in apply.code["workspace/tenants/launcher.tf"]
    assert [change.target.name for change in reserved] == ["tenant-a", "tenant-b", *["job-launcher"] * 3]
    assert apply.target.name == "tfstate-default-tenants"


def set_to(place, value):
    """Return a change of the document, whose parts are given by a path."""

    def change(document, found):
        *path, last = place.split(".")
        for part in path:
            document = document[int(part) if part.isdecimal() else part]
        document[last] = value

    return change


def impersonating(resource, names):
    return {"resources": [resource], "verbs": ["impersonate"], **({"names": names} if names else {})}


def without_section(document, found):
    del document["workspace"]


def without_step(document, found):
    document["inject"] = [{"kind": "terraform", "roots": ["tenants"]}]
    for name in [name for name in found if name.startswith("workspace/")]:
        del found[name]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (without_section, "scenario.yaml, workspace: is needed beside workspace/cloud/iam.tf"),
        (without_step, "scenario.yaml, workspace: has no code"),
        (set_to("inject.0.roots", ["nothing"]), "inject.0.roots.0: the workspace has no folder nothing"),
        (set_to("requires.tiers", ["shared"]), "workspace: needs a cluster of the session's own"),
        (set_to("workspace.state", "shift"), "workspace.state: shift is in namespaces or existing"),
        (set_to("workspace.namespaces", ["platform"]), "workspace.namespaces.0: platform is in namespaces"),
        (set_to("workspace.rights.0.namespaces", ["tenant-a"]), "only the namespace platform is there"),
        (set_to("rights", [impersonating("users", [])]), "rights.0.names: beside a workspace, users and groups are"),
        (set_to("rights", [impersonating("groups", ["${parameter.gpus}"])]), "rights.0.names: beside a workspace"),
        (set_to("workspace.cloud-roles", ["roles/owner"]), "workspace.cloud-roles: only practice clusters"),
        (lambda document, found: found.update({"workspace/run.sh": "x"}), "workspace/run.sh: is not a .tf"),
        (lambda document, found: found.update({"workspace/../x.tf": "x"}), "workspace/../x.tf: is not a .tf"),
        (lambda document, found: found.update({"changes/run.sh": "x"}), "changes/run.sh: is not a .tf"),
        (lambda document, found: found.update({"changes/x.tf": "${parameter.no}"}), "${parameter.no}: no such"),
        (lambda document, found: found.update({"workspace/x.tf": "x" * MAX_BYTES}), "workspace/: has "),
        (lambda document, found: found.update({"workspace/x.tf": "${parameter.no}"}), "${parameter.no}: no such"),
        (lambda document, found: found.update({f"workspace/x{at}.tf": "x" for at in range(99)}), "at most 100"),
    ],
)
def test_a_workspace_that_does_not_fit_is_refused_by_name(change, error):
    with pytest.raises(PackError) as refused:
        parse(workspace_packs.files(change))
    assert error in str(refused.value)


def test_a_step_without_a_workspace_is_refused():
    def neither(document, found):
        without_section(document, found)
        without_step(document, found)

    with pytest.raises(PackError, match=r"inject\.0: needs a workspace"):
        parse(workspace_packs.files(neither))


def test_packs_that_make_the_same_objects_cannot_be_in_one_interview():
    one = parse(workspace_packs.files())
    other = parse(workspace_packs.files(set_to("title", "Another")))
    assert "both create ClusterRole job-launcher" in clash([one, other])
    assert clash([one, PACKS[0]]) == ""


def test_changes_lie_over_the_workspace_and_are_known_apart():
    (*_, apply) = changes(parse(workspace_packs.files(workspace_packs.building_on)).inject)
    assert sorted(apply.changes) == ["workspace/tenants/lead.tf", "workspace/tenants/main.tf"]
    assert apply.code | apply.changes == apply.code
    assert apply.code["workspace/tenants/terraform.tfvars"] == workspace_packs.TENANTS


def test_a_pack_goes_on_with_the_code_of_one_that_comes_before_it():
    first = parse(workspace_packs.files())
    later = parse(workspace_packs.files(workspace_packs.building_on))
    assert clash([first, later]) == ""
    assert clash([first, later], parts=[1, 1]) == ""
    assert "builds on the Terraform code of “A quota that is too small”" in clash([later, first])


def test_two_packs_that_change_the_same_file_are_refused_in_one_part_only():
    def changing(document, found):
        found["changes/tenants/lead.tf"] = "# an earlier one"

    both = [parse(workspace_packs.files(change)) for change in (changing, workspace_packs.building_on)]
    assert clash(both, parts=[1, 2]) == ""
    assert "cannot be in one part: both change tenants/lead.tf" in clash(both, parts=[2, 2])


def test_what_the_workspaces_of_a_session_say_is_merged():
    one = parse(workspace_packs.files()).workspace
    other = parse(workspace_packs.files(set_to("workspace.namespaces", ["tenant-c", "tenant-a"]))).workspace
    assert together([one, other]).namespaces == ("tenant-a", "tenant-b", "tenant-c")
    assert together([]) is None
    moved = {**workspace_packs.WORKSPACE, "state": "infra", "rights": workspace_packs.WORKSPACE["rights"][1:]}
    elsewhere = parse(workspace_packs.files(set_to("workspace", moved))).workspace
    with pytest.raises(PackError, match="infra and platform"):
        together([one, elsewhere])
    packs = [parse(workspace_packs.files(change)) for change in (set_to("title", "One"), set_to("workspace", moved))]
    assert "their Terraform code has two states" in clash(packs)


GRANTING = {
    "roles/owner",
    "roles/editor",
    "roles/iam.securityAdmin",
    "roles/resourcemanager.projectIamAdmin",
}
"""Roles that may change a project's policy, and with it everybody's rights in the cluster."""


def test_one_pack_lets_terraform_change_the_projects_policy_and_its_candidate_cannot_be_somebody_else():
    granting = [pack for pack in PACKS if pack.workspace and GRANTING & set(pack.workspace.cloud_roles)]
    assert [pack.slug for pack in granting] == ["pipeline-unknown"]
    assert not [rule for pack in granting for rule in pack.access if "impersonate" in rule.verbs]
