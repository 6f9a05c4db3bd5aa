locals {
  read  = ["get", "list", "watch"]
  write = ["get", "list", "watch", "create", "update", "patch", "delete"]

  developer_rules = [
    { groups = [""], resources = ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"], verbs = local.write },
    { groups = [""], resources = ["pods/log", "events", "serviceaccounts", "resourcequotas", "limitranges"], verbs = local.read },
    { groups = [""], resources = ["pods/exec", "pods/portforward"], verbs = ["create"] },
    { groups = ["apps"], resources = ["deployments", "replicasets", "statefulsets"], verbs = local.write },
    { groups = ["batch"], resources = ["jobs", "cronjobs"], verbs = local.write },
  ]

  viewer_rules = [
    { groups = [""], resources = ["pods", "pods/log", "services", "configmaps", "events", "resourcequotas", "limitranges"], verbs = local.read },
    { groups = ["apps"], resources = ["deployments", "replicasets", "statefulsets"], verbs = local.read },
    { groups = ["batch"], resources = ["jobs", "cronjobs"], verbs = local.read },
  ]
}

resource "kubernetes_role_v1" "developer" {
  metadata {
    name      = "developer"
    namespace = local.namespace
    labels    = local.labels
  }

  dynamic "rule" {
    for_each = local.developer_rules

    content {
      api_groups = rule.value.groups
      resources  = rule.value.resources
      verbs      = rule.value.verbs
    }
  }
}

resource "kubernetes_role_v1" "viewer" {
  metadata {
    name      = "viewer"
    namespace = local.namespace
    labels    = local.labels
  }

  dynamic "rule" {
    for_each = local.viewer_rules

    content {
      api_groups = rule.value.groups
      resources  = rule.value.resources
      verbs      = rule.value.verbs
    }
  }
}

resource "kubernetes_role_binding_v1" "developers" {
  count = length(var.developers) > 0 ? 1 : 0

  metadata {
    name      = "developers"
    namespace = local.namespace
    labels    = local.labels
  }

  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "Role"
    name      = kubernetes_role_v1.developer.metadata[0].name
  }

  dynamic "subject" {
    for_each = var.developers

    content {
      api_group = subject.value.kind == "ServiceAccount" ? "" : "rbac.authorization.k8s.io"
      kind      = subject.value.kind
      name      = subject.value.name
      namespace = subject.value.kind == "ServiceAccount" ? coalesce(subject.value.namespace, var.name) : null
    }
  }
}

resource "kubernetes_role_binding_v1" "viewers" {
  count = length(var.viewers) > 0 ? 1 : 0

  metadata {
    name      = "viewers"
    namespace = local.namespace
    labels    = local.labels
  }

  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "Role"
    name      = kubernetes_role_v1.viewer.metadata[0].name
  }

  dynamic "subject" {
    for_each = var.viewers

    content {
      api_group = subject.value.kind == "ServiceAccount" ? "" : "rbac.authorization.k8s.io"
      kind      = subject.value.kind
      name      = subject.value.name
      namespace = subject.value.kind == "ServiceAccount" ? coalesce(subject.value.namespace, var.name) : null
    }
  }
}
