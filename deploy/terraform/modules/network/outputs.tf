output "network" {
  description = "The network's name."
  value       = google_compute_network.this.name
}

output "subnetwork" {
  description = "The name of the nodes' subnetwork."
  value       = google_compute_subnetwork.nodes.name
}

output "range_names" {
  description = "The names of the secondary ranges."
  value       = { for range in google_compute_subnetwork.nodes.secondary_ip_range : range.range_name => range.ip_cidr_range }
}
