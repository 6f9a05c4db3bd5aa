module "network" {
  source = "../modules/network"

  name            = var.name
  region          = var.region
  ranges          = var.ranges
  node_tag        = var.name
  external_access = var.external_access
}

module "cluster" {
  source = "../modules/gke"

  name                 = var.name
  project              = var.project
  location             = var.zone
  network              = module.network.network
  subnetwork           = module.network.subnetwork
  node_service_account = google_service_account.nodes.email
  deletion_protection  = var.deletion_protection
  pools                = var.pools
}
