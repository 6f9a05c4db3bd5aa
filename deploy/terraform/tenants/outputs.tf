output "namespaces" {
  description = "The tenants' namespaces."
  value       = { for name, tenant in module.tenant : name => tenant.namespace }
}

output "gpus" {
  description = "GPUs that each tenant may ask for."
  value       = { for name, tenant in module.tenant : name => tenant.gpus }
}

output "service_accounts" {
  description = "The account that each tenant's workloads run as."
  value       = { for name, tenant in module.tenant : name => tenant.service_account }
}

output "job_launcher" {
  description = "The account that starts GPU jobs for all tenants."
  value       = "system:serviceaccount:${kubernetes_service_account_v1.job_launcher.metadata[0].namespace}:${kubernetes_service_account_v1.job_launcher.metadata[0].name}"
}
