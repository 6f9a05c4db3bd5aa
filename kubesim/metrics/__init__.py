"""What Prometheus would have scraped of a cluster, and its HTTP API."""
