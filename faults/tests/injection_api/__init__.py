"""The fault injection API on a practice cluster with node agents; its fixtures are the conftest's."""
