"""What a cluster may have beside Kubernetes itself: a manifest each, and the operators that its pods run."""
