output "name" {
  description = "The cluster's name."
  value       = google_container_cluster.this.name
}

output "endpoint" {
  description = "Address of the control plane."
  value       = google_container_cluster.this.endpoint
}

output "pools" {
  description = "The node pools with their machine types."
  value       = { for name, pool in google_container_node_pool.this : name => pool.node_config[0].machine_type }
}
