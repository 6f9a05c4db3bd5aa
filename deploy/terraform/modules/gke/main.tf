locals {
  scopes = ["https://www.googleapis.com/auth/cloud-platform"]
}

resource "google_container_cluster" "this" {
  name     = var.name
  project  = var.project
  location = var.location

  network         = var.network
  subnetwork      = var.subnetwork
  networking_mode = "VPC_NATIVE"

  # The pools are resources of their own, so that one can be replaced without the cluster.
  remove_default_node_pool = true
  initial_node_count       = 1
  deletion_protection      = var.deletion_protection

  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }

  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }

  release_channel {
    channel = var.release_channel
  }

  lifecycle {
    ignore_changes = [initial_node_count, node_config, remove_default_node_pool]
  }
}

resource "google_container_node_pool" "this" {
  for_each = var.pools

  name       = each.key
  project    = var.project
  location   = var.location
  cluster    = google_container_cluster.this.name
  node_count = each.value.node_count

  dynamic "autoscaling" {
    for_each = each.value.autoscaling[*]

    content {
      min_node_count = autoscaling.value.min
      max_node_count = autoscaling.value.max
    }
  }

  management {
    auto_repair  = true
    auto_upgrade = true
  }

  node_config {
    machine_type    = each.value.machine_type
    disk_size_gb    = each.value.disk_size_gb
    spot            = each.value.spot
    service_account = var.node_service_account
    oauth_scopes    = local.scopes
    labels          = each.value.labels
    tags            = [var.name, each.key]

    dynamic "guest_accelerator" {
      for_each = each.value.gpu[*]

      content {
        type  = guest_accelerator.value.type
        count = guest_accelerator.value.count

        gpu_driver_installation_config {
          gpu_driver_version = guest_accelerator.value.driver_version
        }
      }
    }

    # Pools with GPUs have one more, nvidia.com/gpu=present:NoSchedule, which GKE adds by itself.
    dynamic "taint" {
      for_each = each.value.taints

      content {
        key    = taint.value.key
        value  = taint.value.value
        effect = taint.value.effect
      }
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
  }

  lifecycle {
    ignore_changes = [initial_node_count]
  }
}
