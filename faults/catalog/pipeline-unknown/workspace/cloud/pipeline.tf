# The account in whose name the pipeline starts GPU jobs for all tenants.
resource "google_service_account" "pipeline" {
  project      = var.project
  account_id   = "gpu-pipeline"
  display_name = "Starts the GPU jobs of the day"
}

resource "google_project_iam_member" "pipeline" {
  project = var.project
  role    = "${parameter.role}"
  member  = "${parameter.member}"

  depends_on = [google_service_account.pipeline]
}
