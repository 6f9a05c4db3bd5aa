terraform {
  required_version = ">= 1.6.0"

  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.30.0, < 4.0.0"
    }
  }

  # The state is the Secret tfstate-default-tenants, locked by a Lease. Cluster and account: KUBE_CONFIG_PATH.
  backend "kubernetes" {
    secret_suffix = "tenants"
    namespace     = "platform"
  }
}
