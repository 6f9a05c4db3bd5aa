resource "kubernetes_resource_quota_v1" "gpus" {
  metadata {
    name      = "gpus"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    hard = {
      "${parameter.key}" = tostring(var.gpus)
    }
  }
}

resource "kubernetes_resource_quota_v1" "objects" {
  metadata {
    name      = "objects"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    hard = {
      "requests.cpu"           = var.quota.cpu
      "requests.memory"        = var.quota.memory
      "requests.storage"       = var.quota.storage
      "pods"                   = tostring(var.quota.pods)
      "count/jobs.batch"       = tostring(var.quota.jobs)
      "services"               = tostring(var.quota.services)
      "services.loadbalancers" = "0"
      "services.nodeports"     = "0"
      "configmaps"             = tostring(var.quota.config_maps)
      "secrets"                = tostring(var.quota.secrets)
      "persistentvolumeclaims" = tostring(var.quota.persistent_volume_claims)
    }
  }
}

resource "kubernetes_limit_range_v1" "containers" {
  metadata {
    name      = "containers"
    namespace = local.namespace
    labels    = local.labels
  }

  spec {
    # No GPUs here: a maximum without a default would become the default of every container.
    limit {
      type = "Container"

      default = {
        cpu    = var.container_limits.default_cpu
        memory = var.container_limits.default_memory
      }

      default_request = {
        cpu    = var.container_limits.request_cpu
        memory = var.container_limits.request_memory
      }

      max = {
        cpu    = var.container_limits.max_cpu
        memory = var.container_limits.max_memory
      }
    }
  }
}
