# The account of the pipeline that starts GPU jobs in the namespaces of all tenants.
resource "kubernetes_service_account_v1" "job_launcher" {
  metadata {
    name      = "job-launcher"
    namespace = data.kubernetes_namespace_v1.platform.metadata[0].name
    labels    = local.labels
  }
}

resource "kubernetes_cluster_role_v1" "job_launcher" {
  metadata {
    name   = "${var.name_prefix}job-launcher"
    labels = local.labels
  }

  rule {
    api_groups = ["${parameter.group}"]
    resources  = ["${parameter.resource}"]
    verbs      = ["get", "list", "watch", "${parameter.verb}", "delete"]
  }

  rule {
    api_groups = [""]
    resources  = ["pods", "pods/log", "events"]
    verbs      = ["get", "list", "watch"]
  }
}

resource "kubernetes_cluster_role_binding_v1" "job_launcher" {
  metadata {
    name   = "${var.name_prefix}job-launcher"
    labels = local.labels
  }

  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "ClusterRole"
    name      = kubernetes_cluster_role_v1.job_launcher.metadata[0].name
  }

  subject {
    kind      = "ServiceAccount"
    name      = "${parameter.account}"
    namespace = "${parameter.space}"
  }
}
