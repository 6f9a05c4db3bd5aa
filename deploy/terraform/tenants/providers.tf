# The cluster and the account come from KUBE_CONFIG_PATH, as those of the backend do.
provider "kubernetes" {}
