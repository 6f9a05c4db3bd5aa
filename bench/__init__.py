"""Benchmarks: figures beside goals, in the same run."""
