# What the nodes themselves may: write logs and metrics, read images. Never the account of the project's default.
resource "google_service_account" "nodes" {
  project      = var.project
  account_id   = "gke-nodes"
  display_name = "Nodes of ${var.name}"
}

locals {
  node_roles = toset([
    "roles/artifactregistry.reader",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
  ])

  access = {
    for pair in flatten([
      for role, members in var.cluster_access : [for member in members : { role = role, member = member }]
    ]) : "${pair.role} ${pair.member}" => pair
  }
}

resource "google_project_iam_member" "nodes" {
  for_each = local.node_roles

  project = var.project
  role    = each.value
  member  = google_service_account.nodes.member
}

# The pipeline that starts GPU jobs from outside of the cluster.
resource "google_service_account" "job_launcher" {
  project      = var.project
  account_id   = "job-launcher"
  display_name = "Starts GPU jobs for all tenants"
}

resource "google_project_iam_member" "access" {
  for_each = local.access

  project = var.project
  role    = each.value.role
  member  = each.value.member

  depends_on = [google_service_account.job_launcher]
}
