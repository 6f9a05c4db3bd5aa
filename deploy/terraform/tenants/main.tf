locals {
  labels = {
    "app.kubernetes.io/managed-by" = "terraform"
    "app.kubernetes.io/part-of"    = "gpu-platform"
  }
}

data "kubernetes_namespace_v1" "platform" {
  metadata {
    name = var.platform_namespace
  }
}

module "tenant" {
  source   = "../modules/tenant"
  for_each = var.tenants

  name            = each.key
  labels          = { "app.kubernetes.io/part-of" = "gpu-platform", "platform.example.com/team" = each.value.team }
  gpus            = each.value.gpus
  quota           = { cpu = each.value.cpu, memory = each.value.memory }
  external_ranges = each.value.external_ranges
  developers      = [for name in each.value.developers : { kind = "Group", name = name }]
  viewers         = [for name in each.value.viewers : { kind = "Group", name = name }]

  monitoring = {
    enabled   = each.value.monitoring
    namespace = var.monitoring_namespace
  }
}
