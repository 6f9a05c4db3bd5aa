"""Metrics of a cluster as Prometheus would have scraped them, and its HTTP API."""
