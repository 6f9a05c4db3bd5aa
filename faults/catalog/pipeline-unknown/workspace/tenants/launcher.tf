# The pipeline's account in the cluster. It has no rights of its own: the pipeline acts in the name of the project's account gpu-pipeline.
resource "kubernetes_service_account_v1" "job_launcher" {
  metadata {
    name      = "job-launcher"
    namespace = data.kubernetes_namespace_v1.platform.metadata[0].name
    labels    = local.labels
  }
}
