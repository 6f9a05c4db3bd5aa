variable "tenants" {
  description = "The tenants by name."
  type = map(object({
    team            = string
    gpus            = optional(number, 0)
    cpu             = optional(string, "64")
    memory          = optional(string, "256Gi")
    developers      = optional(list(string), [])
    viewers         = optional(list(string), [])
    external_ranges = optional(list(string), ["0.0.0.0/0"])
    monitoring      = optional(bool, true)
  }))

  validation {
    condition     = alltrue([for name, tenant in var.tenants : tenant.gpus <= 8])
    error_message = "A tenant may ask for at most 8 GPUs, which is one node."
  }
}

variable "platform_namespace" {
  description = "Namespace of the platform team: state, and what works for all tenants. It exists before anything else."
  type        = string
  default     = "platform"
}

variable "monitoring_namespace" {
  description = "Namespace from which tenants are scraped."
  type        = string
  default     = "monitoring"
}

variable "name_prefix" {
  description = "Begin of the names of what is not in a namespace, for several installations in one cluster."
  type        = string
  default     = ""
}
