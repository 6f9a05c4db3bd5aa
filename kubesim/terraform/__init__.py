"""Terraform 1.11 for the simulated toolbox: reads HCL, plans, and applies to the session's cluster and cloud."""
