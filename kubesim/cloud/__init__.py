"""A small Google Cloud API of practice clusters: firewall and networks, the cluster's node pools, accounts, IAM."""
