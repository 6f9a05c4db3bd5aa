variable "name" {
  description = "The cluster, and the network tag of its nodes."
  type        = string
}

variable "project" {
  description = "Project of the cluster."
  type        = string
}

variable "location" {
  description = "Zone of the cluster: GPUs are to be had in few zones."
  type        = string
}

variable "network" {
  description = "The network's name."
  type        = string
}

variable "subnetwork" {
  description = "The subnetwork's name; it has the secondary ranges \"pods\" and \"services\"."
  type        = string
}

variable "node_service_account" {
  description = "E-mail address of the service account of the nodes."
  type        = string
}

variable "release_channel" {
  description = "Release channel that the control plane follows."
  type        = string
  default     = "REGULAR"

  validation {
    condition     = contains(["RAPID", "REGULAR", "STABLE", "EXTENDED"], var.release_channel)
    error_message = "The channel is RAPID, REGULAR, STABLE or EXTENDED."
  }
}

variable "deletion_protection" {
  description = "Whether Terraform refuses to delete the cluster."
  type        = bool
  default     = true
}

variable "pools" {
  description = "Node pools by name. With autoscaling their size follows the pods that wait, without it stays node_count."
  type = map(object({
    machine_type = string
    node_count   = optional(number)
    autoscaling  = optional(object({ min = number, max = number }))
    disk_size_gb = optional(number, 100)
    spot         = optional(bool, false)
    labels       = optional(map(string), {})

    gpu = optional(object({
      type           = string
      count          = number
      driver_version = optional(string, "LATEST")
    }))

    taints = optional(list(object({
      key    = string
      value  = string
      effect = string
    })), [])
  }))

  validation {
    condition     = alltrue([for pool in var.pools : (pool.node_count == null) != (pool.autoscaling == null)])
    error_message = "A pool has either node_count or autoscaling."
  }

  validation {
    condition = alltrue(flatten([
      for pool in var.pools : [for taint in pool.taints : contains(["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"], taint.effect)]
    ]))
    error_message = "A taint's effect is NO_SCHEDULE, PREFER_NO_SCHEDULE or NO_EXECUTE."
  }
}
