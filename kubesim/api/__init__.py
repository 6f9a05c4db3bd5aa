"""The Kubernetes API over HTTP: discovery, negotiation, tables, watches, logs, protobuf bodies."""
