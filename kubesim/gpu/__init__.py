"""The GPUs of the simulated nodes."""
