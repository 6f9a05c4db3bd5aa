"""CEL, the Common Expression Language, as Kubernetes has it: read, typed, priced and run."""
