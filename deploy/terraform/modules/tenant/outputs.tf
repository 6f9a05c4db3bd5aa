output "namespace" {
  description = "The tenant's namespace."
  value       = local.namespace
}

output "service_account" {
  description = "The service account of its workloads, as RBAC names its user."
  value       = "system:serviceaccount:${local.namespace}:${kubernetes_service_account_v1.workload.metadata[0].name}"
}

output "gpus" {
  description = "The GPUs that its pods may ask for, all together."
  value       = var.gpus
}
