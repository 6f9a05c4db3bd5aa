"""The simulated network: who listens on which address, and what a connection to it answers."""
