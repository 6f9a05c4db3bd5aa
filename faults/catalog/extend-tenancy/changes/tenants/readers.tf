# Who reads the pods of a tenant without being one of its developers: the auditor of the platform, and the tenant's own
# people and programs.
locals {
  readers = {
    tenant-a = [
      { kind = "User", name = "auditor@example.com", tenant = "platform" },
      { kind = "User", name = "lead@vision.example.com", tenant = "tenant-a" },
      { kind = "ServiceAccount", name = "workload", tenant = "tenant-a" },
    ]

    tenant-b = [
      { kind = "User", name = "auditor@example.com", tenant = "platform" },
      { kind = "${parameter.kind}", name = "${parameter.name}", tenant = "tenant-a" },
      { kind = "User", name = "lead@speech.example.com", tenant = "tenant-b" },
      { kind = "ServiceAccount", name = "workload", tenant = "tenant-b" },
    ]
  }
}

resource "kubernetes_role_v1" "reader" {
  for_each = local.readers

  metadata {
    name      = "reader"
    namespace = module.tenant[each.key].namespace
    labels    = local.labels
  }

  rule {
    api_groups = [""]
    resources  = ["pods", "pods/log"]
    verbs      = ["get", "list", "watch"]
  }
}

resource "kubernetes_role_binding_v1" "readers" {
  for_each = local.readers

  metadata {
    name      = "readers"
    namespace = module.tenant[each.key].namespace
    labels    = local.labels
  }

  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "Role"
    name      = kubernetes_role_v1.reader[each.key].metadata[0].name
  }

  dynamic "subject" {
    for_each = each.value

    content {
      api_group = subject.value.kind == "ServiceAccount" ? "" : "rbac.authorization.k8s.io"
      kind      = subject.value.kind
      name      = subject.value.name
      namespace = subject.value.kind == "ServiceAccount" ? subject.value.tenant : null
    }
  }
}
