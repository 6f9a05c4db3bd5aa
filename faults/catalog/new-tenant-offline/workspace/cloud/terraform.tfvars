project = "ml-prod"
name    = "ml-prod"

ranges = {
  nodes         = "10.128.0.0/20"
  pods          = "10.64.0.0/14"
  services      = "10.96.0.0/16"
  control_plane = "172.16.0.0/28"
}

pools = {
  default-pool = {
    machine_type = "e2-standard-16"
    node_count   = 1
  }

  h100-pool = {
    machine_type = "a3-highgpu-8g"
    node_count   = 3
    gpu          = { type = "nvidia-h100-80gb", count = 8 }
  }

  # Bought for tenant-c.
  l4-pool = {
    machine_type = "g2-standard-96"
    node_count   = 1
    gpu          = { type = "nvidia-l4", count = 8 }
  }
}

external_access = {
  shared = { tags = ["default-pool", "h100-pool"] }

  tenant-c = {
    tags   = ["${parameter.tag}"]
    ranges = ["${parameter.range}"]
    ports  = ["${parameter.port}"]
  }
}

cluster_access = {
  "roles/container.clusterViewer" = ["group:gpu-platform@example.com"]
  "roles/container.developer"     = ["serviceAccount:job-launcher@ml-prod.iam.gserviceaccount.com"]
}
