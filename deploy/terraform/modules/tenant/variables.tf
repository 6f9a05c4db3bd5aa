variable "name" {
  description = "The tenant, and its namespace."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", var.name)) && !startswith(var.name, "kube-")
    error_message = "A tenant's name is a DNS label of at most 63 characters that does not begin with \"kube-\"."
  }
}

variable "labels" {
  description = "Labels of everything that the module makes, beside its own."
  type        = map(string)
  default     = {}
}

variable "pod_security" {
  description = "Pod Security level that the namespace enforces."
  type        = string
  default     = "baseline"

  validation {
    condition     = contains(["baseline", "restricted"], var.pod_security)
    error_message = "Tenants run as \"baseline\" or \"restricted\"."
  }
}

variable "gpus" {
  description = "GPUs that the tenant's pods may ask for, all together."
  type        = number
  default     = 0

  validation {
    condition     = var.gpus >= 0 && floor(var.gpus) == var.gpus
    error_message = "The number of GPUs is a whole number, 0 or more."
  }
}

variable "quota" {
  description = "What the namespace may hold of everything else."
  type = object({
    cpu                      = optional(string, "64")
    memory                   = optional(string, "256Gi")
    storage                  = optional(string, "1Ti")
    pods                     = optional(number, 50)
    jobs                     = optional(number, 50)
    services                 = optional(number, 10)
    config_maps              = optional(number, 50)
    secrets                  = optional(number, 50)
    persistent_volume_claims = optional(number, 10)
  })
  default = {}
}

variable "container_limits" {
  description = "What a container gets that asks for nothing, and the most that one may have."
  type = object({
    default_cpu    = optional(string, "2")
    default_memory = optional(string, "4Gi")
    request_cpu    = optional(string, "250m")
    request_memory = optional(string, "512Mi")
    max_cpu        = optional(string, "32")
    max_memory     = optional(string, "128Gi")
  })
  default = {}
}

variable "service_account" {
  description = "Service account that the tenant's workloads run as."
  type        = string
  default     = "workload"
}

variable "developers" {
  description = "Users, groups and service accounts that may run workloads in the namespace."
  type = list(object({
    kind      = string
    name      = string
    namespace = optional(string)
  }))
  default = []

  validation {
    condition     = alltrue([for s in var.developers : contains(["User", "Group", "ServiceAccount"], s.kind)])
    error_message = "A developer's kind is User, Group or ServiceAccount."
  }
}

variable "viewers" {
  description = "Users, groups and service accounts that may read the namespace, but change nothing and see no secret."
  type = list(object({
    kind      = string
    name      = string
    namespace = optional(string)
  }))
  default = []

  validation {
    condition     = alltrue([for s in var.viewers : contains(["User", "Group", "ServiceAccount"], s.kind)])
    error_message = "A viewer's kind is User, Group or ServiceAccount."
  }
}

variable "external_ranges" {
  description = "Address ranges outside of the cluster that the tenant's pods may connect to."
  type        = list(string)
  default     = ["0.0.0.0/0"]

  validation {
    condition     = alltrue([for range in var.external_ranges : can(cidrhost(range, 0))])
    error_message = "Each range is written as in 203.0.113.0/24."
  }
}

variable "internal_ranges" {
  description = "Ranges of nodes, pods, services and metadata servers: never reached through external_ranges."
  type        = list(string)
  default     = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]
}

variable "monitoring" {
  description = "Whether logs and metrics of the tenant are collected, by whom, and from which ports."
  type = object({
    enabled   = optional(bool, true)
    namespace = optional(string, "monitoring")
    ports     = optional(list(number), [8000, 8080, 9090, 9400])
  })
  default = {}
}
