# Logs and metrics move to the new collectors tenant by tenant: whoever is in this list has moved.
locals {
  moved     = ["${parameter.first}", "${parameter.second}", "tenant-c"]
  collected = var.monitoring.enabled && contains(local.moved, var.name)
}
