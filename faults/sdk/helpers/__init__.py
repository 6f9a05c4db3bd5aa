"""Parts beside the API's client: faults in the CUDA calls of pods, and the cluster they run in."""
