locals {
  labels = merge(var.labels, {
    "app.kubernetes.io/managed-by" = "terraform"
    "platform.example.com/tenant"  = var.name
  })

  # Prometheus and the log shipper select namespaces by these.
  monitoring_labels = {
    "platform.example.com/logs"    = local.collected ? "enabled" : "disabled"
    "platform.example.com/metrics" = local.collected ? "enabled" : "disabled"
  }

  namespace = kubernetes_namespace_v1.this.metadata[0].name
}

resource "kubernetes_namespace_v1" "this" {
  metadata {
    name = var.name
    labels = merge(local.labels, local.monitoring_labels, {
      "pod-security.kubernetes.io/enforce" = var.pod_security
    })
  }
}

resource "kubernetes_service_account_v1" "workload" {
  metadata {
    name      = var.service_account
    namespace = local.namespace
    labels    = local.labels
  }

  # Workloads do not talk to the API; a pod that has to asks for its token itself.
  automount_service_account_token = false
}
