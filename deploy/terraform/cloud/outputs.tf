output "cluster" {
  description = "The cluster's name."
  value       = module.cluster.name
}

output "pools" {
  description = "The node pools with their machine types."
  value       = module.cluster.pools
}

output "job_launcher" {
  description = "The account that starts GPU jobs from outside of the cluster."
  value       = google_service_account.job_launcher.email
}
