"""What a plan of the toolbox's code would do: read from hostile text, and made anew only where something changed."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from faults.checks import Condition, Outcome, PlanRead, evaluate
from faults.errors import NotFound
from faults.terraform_plans import MAX_CHANGES, TerraformPlans, read_drift, read_plan
from faults.terraform_state import secret_name

REFRESHED = """Note: Objects have changed outside of Terraform

  # kubernetes_role_v1.b has changed
  ~ resource "kubernetes_role_v1" "b" {
      ~ metadata {
          ~ generation       = 1 -> 2
        }
      ~ rule {
          ~ verbs = [
              + "get",
            ]
        }
    }

  # kubernetes_namespace_v1.often has changed
  ~ resource "kubernetes_namespace_v1" "often" {
      ~ metadata {
          + annotations      = {}
          ~ resource_version = "7" -> "9"
        }
    }

  # kubernetes_namespace_v1.a has been deleted
  # kubernetes_namespace_v1.c will be created
"""
PLANNED = """kubernetes_namespace_v1.a: Refreshing state... [id=a]

Terraform will perform the following actions:

  # kubernetes_namespace_v1.a must be replaced
  # module.tenant["a"].kubernetes_resource_quota_v1.gpus will be updated in-place
  # google_project_iam_member.c will be created
  # kubernetes_role_v1.d will be destroyed
  # (because kubernetes_role_v1.d is not in configuration)

Plan: 2 to add, 1 to change, 2 to destroy.
"""


def test_counts_and_addresses_are_read():
    found = read_plan(2, PLANNED)
    assert (found.known, found.add, found.change, found.destroy) == (True, 2, 1, 2)
    assert found.text == "2 to add, 1 to change, 2 to destroy"
    assert found.changes == (
        "-/+ kubernetes_namespace_v1.a",
        '~ module.tenant["a"].kubernetes_resource_quota_v1.gpus',
        "+ google_project_iam_member.c",
        "- kubernetes_role_v1.d",
    )
    assert read_drift(2, REFRESHED) == ("kubernetes_role_v1.b", "kubernetes_namespace_v1.a")
    assert read_drift(1, REFRESHED) == read_drift(0, "No changes.\n") == ()


@pytest.mark.parametrize(
    ("code", "output", "text"),
    [
        (0, "No changes. Your infrastructure matches the configuration.", "no changes"),
        (0, "\nPlan: 1 to add, 0 to change, 0 to destroy.\n", "no changes"),
        (2, "Changes to Outputs:\n  + x = 1\n", "no changes"),
        (2, PLANNED + "Plan: 0 to add, 0 to change, 0 to destroy.\n", "2 to add, 1 to change, 2 to destroy"),
        (1, "╷\n│ Error: Invalid\x1b[2J reference\n│\n", "no plan: Invalid␛[2J reference"),
        (1, "No changes. Plan: 0 to add", "no plan: terraform ended with exit code 1"),
        (124, "", "no plan: it takes more than 20 seconds"),
    ],
)
def test_a_plan_says_what_its_exit_code_says_whatever_was_written(code, output, text):
    assert read_plan(code, output).text == text


def test_of_addresses_the_first_are_kept_short_and_in_sight():
    lines = [f"  # a.\u202e{'b' * 290}{number} will be created\n" for number in range(100)]
    found = read_plan(2, "".join(lines))
    assert len(found.changes) == MAX_CHANGES
    assert all(len(each) <= 202 and "\u202e" not in each for each in found.changes)


class Toolbox:
    """A cluster with one role, a state that knows it, and code whose plans are counted."""

    def __init__(self):
        self.plans, self.code, self.serial, self.answer = 0, "x", 3, (0, "")
        self.role = {"metadata": {"name": "b", "namespace": "a", "resourceVersion": "1"}, "rules": []}
        self.assets = [{"name": "firewall"}]
        self.commands = []
        self.meanwhile = lambda: None

    def secret(self, namespace, name):
        assert (namespace, name) == ("platform", secret_name("tenants"))
        rows = [("kubernetes_role_v1", {"id": "a/b"}), ("google_compute_firewall", {"project": "ml-prod"})]
        resources = [{"type": kind, "name": "x", "instances": [{"attributes": each}]} for kind, each in rows]
        document = {"version": 4, "serial": self.serial, "resources": resources}
        return {"data": {"tfstate": base64.b64encode(gzip.compress(json.dumps(document).encode(), mtime=0)).decode()}}

    def list(self, api_version, kind, namespace="", label_selector=""):
        return [self.role] if kind == "Role" else []

    def cloud_assets(self, project):
        assert project == "ml-prod"
        return self.assets

    def run_command(self, namespace, pod, container, command, limits=None):
        self.commands.append(command[2])
        if "terraform plan" not in command[2]:
            return (0, self.code) if self.code else (124, "")
        if command[-1] == "-refresh-only":
            return 0, REFRESHED
        self.plans += 1
        self.meanwhile()
        return self.answer


@pytest.fixture
def toolbox():
    return Toolbox()


def test_a_plan_is_made_anew_only_where_code_state_cluster_or_cloud_have_changed(toolbox):
    plans = TerraformPlans()

    def made():
        before = toolbox.plans
        assert plans.newest(toolbox, "platform", "tenants").known
        return toolbox.plans - before

    assert [made(), made()] == [1, 0]
    toolbox.role["metadata"]["resourceVersion"] = "2"
    toolbox.role["status"] = {"used": "1"}
    assert made() == 0
    for change in (
        lambda: setattr(toolbox, "code", "y"),
        lambda: setattr(toolbox, "serial", 4),
        lambda: toolbox.role["rules"].append({}),
        lambda: toolbox.assets.append({}),
    ):
        change()
        assert [made(), made()] == [1, 0]


def test_it_neither_locks_the_state_nor_writes_a_file(toolbox):
    TerraformPlans().newest(toolbox, "platform", "tenants")
    plan = toolbox.commands[-1]
    assert "-lock=false" in plan
    assert "-out" not in plan
    assert ">" not in plan.replace("2>&1", "")


def test_a_state_that_changes_meanwhile_or_code_that_cannot_be_read_makes_no_plan(toolbox):
    toolbox.meanwhile = lambda: setattr(toolbox, "serial", toolbox.serial + 1)
    assert TerraformPlans().newest(toolbox, "platform", "tenants").text == "no plan: the state has just changed"
    toolbox.code, toolbox.meanwhile = "", lambda: None
    assert TerraformPlans().newest(toolbox, "platform", "tenants").text == "no plan: the code cannot be read"


def test_a_check_sees_it_with_the_number_of_the_state(toolbox):
    toolbox.answer = (2, PLANNED)

    class Reader:
        def plan(self, namespace, root):
            return TerraformPlans().newest(toolbox, namespace, root).dump()

    condition = Condition(
        {"plan": PlanRead("platform", "tenants")},
        "plan.known && plan.serial == 3 && size(plan.drift) == 2 && plan.add + plan.change + plan.destroy == 5",
        "plan.text",
    )
    assert evaluate(condition, Reader()) == Outcome("pass", "2 to add, 1 to change, 2 to destroy")


def test_nothing_is_asked_of_a_toolbox_before_anything_is_applied(toolbox):
    toolbox.serial = 0
    assert TerraformPlans().newest(toolbox, "platform", "tenants").text == "no plan: there is no state"
    assert toolbox.commands == []


def test_without_a_toolbox_there_is_no_plan(toolbox, monkeypatch):
    def gone(*args):
        raise NotFound("no such pod")

    monkeypatch.setattr(toolbox, "run_command", gone)
    assert not TerraformPlans().newest(toolbox, "platform", "tenants").known
