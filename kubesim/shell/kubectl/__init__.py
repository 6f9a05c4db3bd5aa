"""kubectl inside containers: the verbs that people use most, through the pod's own way to the API server."""
