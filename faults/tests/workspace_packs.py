"""A small pack with a Terraform workspace, for tests: one tenant whose quota counts too few GPUs."""

from __future__ import annotations

import copy
import json

from faults.packs.workspaces import merged

RBAC = "rbac.authorization.k8s.io"
WRITE = ["get", "list", "watch", "create", "update", "patch", "delete"]
WORKSPACE = {
    "state": "platform",
    "namespaces": ["tenant-a", "tenant-b"],
    "objects": [
        {"kind": "ClusterRole", "name": "job-launcher"},
        {"kind": "ClusterRoleBinding", "name": "job-launcher"},
        {"kind": "ServiceAccount", "name": "job-launcher"},
    ],
    "rights": [
        {"namespaces": ["platform"], "resources": ["secrets", "leases.coordination.k8s.io"], "verbs": WRITE},
        {
            "resources": [
                *("namespaces", "serviceaccounts", "resourcequotas", "limitranges"),
                *("networkpolicies.networking.k8s.io", f"roles.{RBAC}", f"rolebindings.{RBAC}"),
            ],
            "verbs": WRITE,
        },
        {"resources": [f"roles.{RBAC}", f"clusterroles.{RBAC}"], "verbs": ["bind", "escalate"]},
        {"resources": [f"clusterroles.{RBAC}", f"clusterrolebindings.{RBAC}"], "verbs": WRITE},
    ],
}
GPU = "requests.nvidia.com/gpu"
ANCHORS = dict.fromkeys("1234", "x")
EDIT = "sed -i 's/gpus = .*/gpus = 8/' platform/tenants/terraform.tfvars"
TENANTS = """tenants = {
  tenant-a = {
    team = "vision"
    gpus = ${parameter.gpus}
  }
}
"""
FEW = """variable "tenants" {
  type = map(object({ team = string, gpus = number }))
}

resource "kubernetes_namespace_v1" "tenant" {
  for_each = var.tenants
  metadata {
    name   = each.key
    labels = { "pod-security.kubernetes.io/enforce" = "baseline" }
  }
}

resource "kubernetes_resource_quota_v1" "gpus" {
  for_each = var.tenants
  metadata {
    name      = "gpus"
    namespace = kubernetes_namespace_v1.tenant[each.key].metadata[0].name
  }
  spec {
    hard = { "requests.nvidia.com/gpu" = each.value.gpus }
  }
}

resource "kubernetes_cluster_role_v1" "job_launcher" {
  metadata {
    name = "job-launcher"
  }
  rule {
    api_groups = ["batch"]
    resources  = ["jobs"]
    verbs      = ["create"]
  }
}
"""
_KEPT = ("versions.tf", "providers.tf", "terraform.tfvars")


def with_few_resources(document, found):
    """Change the pack to one whose code makes little: what is applied and taken back in a second."""
    for name in [name for name in found if name.startswith("workspace/")]:
        if name not in [f"workspace/tenants/{kept}" for kept in _KEPT]:
            del found[name]
    found["workspace/tenants/main.tf"] = FEW


LEAD = """resource "kubernetes_role_v1" "lead" {
  metadata {
    name      = "lead"
    namespace = kubernetes_namespace_v1.tenant["tenant-a"].metadata[0].name
  }
  rule {
    api_groups = [""]
    resources  = ["pods"]
    verbs      = ["list"]
  }
}
"""


def building_on(document, found):
    """Change the pack to one that goes on with the code of the other: another quota, and one more role."""
    with_few_resources(document, found)
    document |= {"slug": "small-quota-later", "title": "A quota that counts nothing"}
    document["workspace"] |= {"after": ["small-quota"], "namespaces": ["tenant-a", "tenant-b", "tenant-c"]}
    found["changes/tenants/main.tf"] = FEW.replace("requests.nvidia.com/gpu", "limits.nvidia.com/gpu")
    found["changes/tenants/lead.tf"] = LEAD


def files(change=lambda document, found: None):
    """Return the files of the pack, after a change to its document and files."""
    document = {
        "schema": 2,
        "slug": "small-quota",
        "version": 1,
        "title": "A quota that is too small",
        "category": "Terraform",
        "difficulty": "easy",
        "minutes": 10,
        "tags": ["terraform"],
        "source": "derived",
        "requires": {"tiers": ["practice", "dedicated"], "nodes": 1, "gpus": 1, "agent": False},
        "namespaces": {"workloads": "shift"},
        "workspace": copy.deepcopy(WORKSPACE),
        "variants": [{"gpus": str(number)} for number in range(1, 6)],
        "inject": [{"kind": "terraform", "roots": ["tenants"]}],
        "symptom": [_condition("size(quotas) == 1")],
        "checks": [{"key": "larger", "points": 10, **_condition(f"quotas.exists(q, q.spec.hard['{GPU}'] == '8')")}],
        "guards": [],
        "cause": ["quota"],
        "hints": [],
        "rubric": [
            {"key": kind, "title": kind, "weight": 9, "source": "derived", "kind": kind, "anchors": ANCHORS}
            for kind in ("diagnosis", "fix", "communication")
        ],
        "solutions": [
            {"key": key, "title": key, "lines": [EDIT, line]}
            for key, line in (
                ("apply", "cd platform/tenants && terraform apply -auto-approve -no-color"),
                ("plan", "cd platform/tenants && terraform plan -out p && terraform apply p"),
            )
        ],
    }  # fmt: skip
    texts = {"statement.md": "# The quota\n", "brief.md": "# Brief\n", "workspace/tenants/terraform.tfvars": TENANTS}
    found = merged(texts)
    change(document, found)
    return found | {"scenario.yaml": json.dumps(document, indent=1)}


def _condition(expr):
    read = {"apiVersion": "v1", "kind": "ResourceQuota", "namespace": "tenant-a", "name": "gpus"}
    return {
        "title": "The quota",
        "reads": {"quotas": read},
        "expr": expr,
        "found": "string(size(quotas)) + ' quotas'",
    }
