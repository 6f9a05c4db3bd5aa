"""Watches the clusters of all sessions, evaluates checks, and publishes panels. One active process by lease."""
