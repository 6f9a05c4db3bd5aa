"""Real Terraform keeps the tenants of ``deploy/terraform`` on a cluster: applied, changed, repaired and destroyed."""

import base64
import gzip
import json
import random
import shutil
from pathlib import Path

import pytest

from kubesim.tests.contract.exchanges import LETTERS, make_namespace
from kubesim.tests.contract.terraform import CHANGES, EMPTY, terraform_in

pytestmark = pytest.mark.torture
CODE = Path(__file__).parents[3] / "deploy" / "terraform"
STATE, LOCK = "tfstate-default-tenants", "lock-tfstate-default-tenants"
QUOTA = "/api/v1/namespaces/{}/resourcequotas/{}"
OTHERS = """
terraform {
  required_providers { kubernetes = { source = "hashicorp/kubernetes" } }
}
provider "kubernetes" {}
resource "kubernetes_config_map_v1" "settings" {
  metadata {
    name      = "settings"
    namespace = "%(space)s"
  }
  data = { key = "value" }
}
resource "kubernetes_secret_v1" "token" {
  metadata {
    name      = "token"
    namespace = "%(space)s"
  }
  data = { token = "hidden" }
}
resource "kubernetes_service_v1" "web" {
  metadata {
    name      = "web"
    namespace = "%(space)s"
  }
  spec {
    selector = { app = "web" }
    port {
      port        = 80
      target_port = 8080
    }
  }
}
resource "kubernetes_deployment_v1" "web" {
  metadata {
    name      = "web"
    namespace = "%(space)s"
  }
  spec {
    replicas = 2
    selector { match_labels = { app = "web" } }
    template {
      metadata { labels = { app = "web" } }
      spec {
        container {
          name  = "main"
          image = "nginx:1.27"
        }
      }
    }
  }
}
resource "kubernetes_job_v1" "once" {
  metadata {
    name      = "once"
    namespace = "%(space)s"
  }
  spec {
    template {
      metadata {}
      spec {
        restart_policy = "Never"
        container {
          name    = "main"
          image   = "busybox:1.36"
          command = ["true"]
        }
      }
    }
  }
  wait_for_completion = false
}
"""


def copied(folder):
    """Copy the code base without its own variables, and return where it is."""
    shutil.copytree(CODE, folder / "code", ignore=shutil.ignore_patterns(".terraform*", "terraform.tfvars"))
    return folder / "code"


def written(tenants, **shared):
    """Return the text of a variables file."""
    return json.dumps({"tenants": tenants, **shared})


@pytest.fixture
def names():
    """Names that nobody else has: of the platform's namespace and of three tenants."""
    end = "".join(random.choices(LETTERS, k=6))
    return {"platform": f"platform-{end}", **{letter: f"tenant-{letter}-{end}" for letter in "abc"}}


@pytest.fixture
def tenants(cluster, names, tmp_path):
    """The root ``tenants`` of the code base in a folder of its own, with two tenants, ready to be applied."""
    terraform = terraform_in(copied(tmp_path) / "tenants", cluster.kubeconfig)
    make_namespace(cluster, names["platform"])
    terraform.init(f"-backend-config=namespace={names['platform']}")
    yield terraform
    cluster("DELETE", f"/api/v1/namespaces/{names['platform']}")


@pytest.fixture
def variables(tenants, names):
    """Write the variables: each tenant's letter and its GPUs."""

    def write(**gpus):
        wanted = {
            names[letter]: {"team": "vision", "gpus": count, "developers": [f"engineers-{letter}"]}
            for letter, count in gpus.items()
        }
        shared = {"platform_namespace": names["platform"], "name_prefix": f"{names['platform']}-"}
        (tenants.folder / "terraform.tfvars.json").write_text(written(wanted, **shared))

    return write


def hard(cluster, namespace, quota="gpus"):
    return cluster("GET", QUOTA.format(namespace, quota)).json["spec"]["hard"]


def state_of(cluster, namespace):
    secret = cluster("GET", f"/api/v1/namespaces/{namespace}/secrets/{STATE}").json
    return secret, json.loads(gzip.decompress(base64.b64decode(secret["data"]["tfstate"])))


def test_tenants_are_applied_changed_repaired_and_destroyed(cluster, tenants, variables, names):
    variables(a=4, b=4)
    tenants("validate")
    assert tenants.plan() == CHANGES
    tenants("apply", "-auto-approve")
    assert tenants.plan() == EMPTY
    assert hard(cluster, names["a"]) == {"requests.nvidia.com/gpu": "4"}

    variables(a=1, b=1, c=1)
    said = tenants("apply", "-auto-approve")
    assert "2 changed, 0 destroyed." in said
    assert tenants.plan() == EMPTY
    assert [hard(cluster, names[letter]) for letter in "abc"] == [{"requests.nvidia.com/gpu": "1"}] * 3

    path, wrong = QUOTA.format(names["b"], "gpus"), {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    assert cluster("PATCH", path, wrong, kind="application/merge-patch+json").code == 200
    assert tenants.plan() == CHANGES
    tenants("apply", "-auto-approve")
    assert hard(cluster, names["b"]) == {"requests.nvidia.com/gpu": "1"}
    assert tenants.plan() == EMPTY

    tenants("destroy", "-auto-approve")
    gone = [cluster("GET", f"/api/v1/namespaces/{names[letter]}").code for letter in "abc"]
    assert gone == [404, 404, 404]
    assert state_of(cluster, names["platform"])[1]["resources"] == []


def test_tenants_are_apart_and_one_account_starts_jobs_for_all(cluster, tenants, variables, names):
    variables(a=1, b=1)
    tenants("apply", "-auto-approve")
    launcher = f"system:serviceaccount:{names['platform']}:job-launcher"

    def may(verb, resource, letter, group="", **who):
        asked = {"verb": verb, "group": group, "resource": resource, "namespace": names[letter]}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        review["spec"] = {"resourceAttributes": asked, **who}
        answer = cluster("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return answer.json["status"]["allowed"]

    engineer = {"user": "ada", "groups": ["engineers-a"]}
    assert may("create", "jobs", "a", "batch", **engineer)
    assert not may("list", "pods", "b", **engineer)
    assert not may("update", "resourcequotas", "a", **engineer)
    assert [may("create", "jobs", letter, "batch", user=launcher) for letter in "ab"] == [True, True]
    assert not may("get", "secrets", "a", user=launcher)
    tenants("destroy", "-auto-approve")


def test_the_state_is_a_secret_of_the_cluster_and_locked_by_a_lease(cluster, tenants, variables, names):
    variables(a=2)
    tenants("apply", "-auto-approve")
    secret, state = state_of(cluster, names["platform"])
    assert secret["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "terraform",
        "tfstate": "true",
        "tfstateSecretSuffix": "tenants",
        "tfstateWorkspace": "default",
    }
    assert secret["metadata"]["annotations"] == {"encoding": "gzip"}
    assert (state["version"], state["serial"]) == (4, state["serial"])
    assert {"kubernetes_namespace_v1", "kubernetes_resource_quota_v1"} <= {
        item["type"] for item in state["resources"]
    }

    path = f"/apis/coordination.k8s.io/v1/namespaces/{names['platform']}/leases/{LOCK}"
    held = {"metadata": {"annotations": {"app.terraform.io/lock-info": json.dumps({"ID": "42", "Who": "ada@desk"})}}}
    held["spec"] = {"holderIdentity": "42"}
    assert cluster("PATCH", path, held, kind="application/merge-patch+json").code == 200
    refused = tenants.run("plan")
    assert refused.returncode == 1
    assert "Error acquiring the state lock" in refused.stderr
    assert "ada@desk" in refused.stderr
    tenants("force-unlock", "-force", "42")
    assert tenants.plan() == EMPTY
    tenants("destroy", "-auto-approve")


def test_an_object_made_by_hand_is_imported(cluster, tenants, variables, names):
    variables(a=2)
    make_namespace(cluster, names["a"])
    address = f'module.tenant["{names["a"]}"].kubernetes_namespace_v1.this'
    assert "Import successful!" in tenants("import", address, names["a"])
    assert tenants("state", "list").splitlines()[-1] == address
    tenants("apply", "-auto-approve")
    assert tenants.plan() == EMPTY
    tenants("destroy", "-auto-approve")
    assert cluster("GET", f"/api/v1/namespaces/{names['a']}").code == 404


def test_a_wrong_variable_is_refused_before_anything_is_done(cluster, tenants, variables, names):
    variables(a=2.5)
    refused = tenants.run("apply", "-auto-approve")
    assert refused.returncode == 1
    assert "The number of GPUs is a whole number" in refused.stderr
    assert cluster("GET", f"/api/v1/namespaces/{names['a']}").code == 404


def test_workloads_services_and_secrets_are_kept_as_well(cluster, namespace, tmp_path):
    (tmp_path / "main.tf").write_text(OTHERS % {"space": namespace})
    terraform = terraform_in(tmp_path, cluster.kubeconfig)
    terraform.init()
    terraform("apply", "-auto-approve")
    assert terraform.plan() == EMPTY
    terraform("destroy", "-auto-approve")
    assert cluster("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web").code == 404
