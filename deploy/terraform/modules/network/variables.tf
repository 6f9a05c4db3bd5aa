variable "name" {
  description = "The network, and the beginning of the names of what belongs to it."
  type        = string
}

variable "region" {
  description = "Region of the subnetwork."
  type        = string
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

variable "node_tag" {
  description = "Network tag of every node of the cluster."
  type        = string
}

variable "external_access" {
  description = "Node pools that may connect to the outside, by a name for the rule; tags are the names of node pools."
  type = map(object({
    tags     = list(string)
    ranges   = optional(list(string), ["0.0.0.0/0"])
    ports    = optional(list(string), ["80", "443"])
    priority = optional(number, 1000)
  }))
  default = {}
}
