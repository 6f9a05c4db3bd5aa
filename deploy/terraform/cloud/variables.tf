variable "api" {
  description = "Address of a cloud API other than Google's, as in https://127.0.0.1:8443; null for Google's own."
  type        = string
  default     = null
}

variable "project" {
  description = "Project of everything."
  type        = string
}

variable "region" {
  description = "Region of the network."
  type        = string
  default     = "us-central1"
}

variable "zone" {
  description = "Zone of the cluster."
  type        = string
  default     = "us-central1-a"
}

variable "name" {
  description = "The cluster, its network, and the network tag of its nodes."
  type        = string
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to delete the cluster."
  type        = bool
  default     = true
}

variable "ranges" {
  description = "Address ranges: nodes, pods, services, and the control plane's endpoint."
  type = object({
    nodes         = string
    pods          = string
    services      = string
    control_plane = string
  })
}

variable "pools" {
  description = "Node pools by name; modules/gke describes them."
  type = map(object({
    machine_type = string
    node_count   = optional(number)
    autoscaling  = optional(object({ min = number, max = number }))
    disk_size_gb = optional(number, 100)
    spot         = optional(bool, false)
    labels       = optional(map(string), {})
    gpu          = optional(object({ type = string, count = number, driver_version = optional(string, "LATEST") }))
    taints       = optional(list(object({ key = string, value = string, effect = string })), [])
  }))
}

variable "external_access" {
  description = "Node pools that may connect to the outside; modules/network describes them."
  type = map(object({
    tags     = list(string)
    ranges   = optional(list(string), ["0.0.0.0/0"])
    ports    = optional(list(string), ["80", "443"])
    priority = optional(number, 1000)
  }))
  default = {}
}

variable "cluster_access" {
  description = "Who may do what in the cluster: for each project role its members, as IAM writes them."
  type        = map(list(string))
  default     = {}
}
