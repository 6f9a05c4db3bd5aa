# Nothing goes in or out but what the policies after this one name.
resource "kubernetes_network_policy_v1" "default_deny" {
  metadata {
    name      = "default-deny"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    pod_selector {}
    policy_types = ["Ingress", "Egress"]
  }
}

resource "kubernetes_network_policy_v1" "same_namespace" {
  metadata {
    name      = "same-namespace"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    pod_selector {}
    policy_types = ["Ingress", "Egress"]

    ingress {
      from {
        pod_selector {}
      }
    }

    egress {
      to {
        pod_selector {}
      }
    }
  }
}

resource "kubernetes_network_policy_v1" "dns" {
  metadata {
    name      = "dns"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    pod_selector {}
    policy_types = ["Egress"]

    egress {
      to {
        namespace_selector {
          match_labels = {
            "kubernetes.io/metadata.name" = "kube-system"
          }
        }

        pod_selector {
          match_labels = {
            "k8s-app" = "kube-dns"
          }
        }
      }

      ports {
        port     = "53"
        protocol = "UDP"
      }

      ports {
        port     = "53"
        protocol = "TCP"
      }
    }
  }
}

resource "kubernetes_network_policy_v1" "external" {
  count = length(var.external_ranges) > 0 ? 1 : 0

  metadata {
    name      = "external"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    pod_selector {}
    policy_types = ["Egress"]

    egress {
      dynamic "to" {
        for_each = var.external_ranges

        content {
          ip_block {
            cidr   = to.value
            except = to.value == "0.0.0.0/0" ? var.internal_ranges : []
          }
        }
      }
    }
  }
}

resource "kubernetes_network_policy_v1" "monitoring" {
  count = local.collected ? 1 : 0

  metadata {
    name      = "monitoring"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    pod_selector {}
    policy_types = ["Ingress"]

    ingress {
      from {
        namespace_selector {
          match_labels = {
            "kubernetes.io/metadata.name" = var.monitoring.namespace
          }
        }
      }

      dynamic "ports" {
        for_each = var.monitoring.ports

        content {
          port     = tostring(ports.value)
          protocol = "TCP"
        }
      }
    }
  }
}
