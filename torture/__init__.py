"""Crash rounds: whole interviews on a real installation that is being broken meanwhile."""
