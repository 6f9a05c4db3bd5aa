"""CEL, the Common Expression Language, as Kubernetes has it: read, priced and run."""
