# On call for the vision team: reads what runs in tenant-a, day and night.
locals {
  oncall = { kind = "${parameter.kind}", name = "${parameter.name}", tenant = "tenant-a" }
}

resource "kubernetes_cluster_role_v1" "oncall" {
  metadata {
    name   = "${var.name_prefix}oncall-reader"
    labels = local.labels
  }

  rule {
    api_groups = [""]
    resources  = ["pods", "pods/log", "events"]
    verbs      = ["get", "list", "watch"]
  }
}

resource "kubernetes_cluster_role_binding_v1" "oncall" {
  metadata {
    name   = "${var.name_prefix}oncall-reader"
    labels = local.labels
  }

  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "ClusterRole"
    name      = kubernetes_cluster_role_v1.oncall.metadata[0].name
  }

  subject {
    api_group = local.oncall.kind == "ServiceAccount" ? "" : "rbac.authorization.k8s.io"
    kind      = local.oncall.kind
    name      = local.oncall.name
    namespace = local.oncall.kind == "ServiceAccount" ? local.oncall.tenant : null
  }
}
