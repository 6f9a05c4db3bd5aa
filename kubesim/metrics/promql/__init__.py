"""PromQL over series that are worked out when they are asked for."""
