"""The two homes of simulated nodes: inside a practice cluster (``practice``), and joined to any other one."""
