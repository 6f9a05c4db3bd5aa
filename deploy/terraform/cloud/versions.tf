terraform {
  required_version = ">= 1.6.0"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0.0, < 9.0.0"
    }
  }

  # The state lies beside that of the tenants: the Secret tfstate-default-cloud, locked by a Lease.
  backend "kubernetes" {
    secret_suffix = "cloud"
    namespace     = "platform"
  }
}
