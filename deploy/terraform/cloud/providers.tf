# A token of GOOGLE_OAUTH_ACCESS_TOKEN, or the credentials that gcloud has left. Under var.api the same paths are found as at Google.
provider "google" {
  project = var.project
  region  = var.region
  zone    = var.zone

  compute_custom_endpoint          = var.api == null ? null : "${var.api}/compute/v1/"
  container_custom_endpoint        = var.api == null ? null : "${var.api}/container/v1/"
  iam_custom_endpoint              = var.api == null ? null : "${var.api}/iam/v1/"
  iam_beta_custom_endpoint         = var.api == null ? null : "${var.api}/iam/v1/" # where version 8 looks for accounts
  resource_manager_custom_endpoint = var.api == null ? null : "${var.api}/cloudresourcemanager/v1/"
}
