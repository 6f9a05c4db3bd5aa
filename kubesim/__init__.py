"""A GPU Kubernetes cluster in one process. It knows nothing of the rest of the project."""
