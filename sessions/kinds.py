"""Kinds that are watched in a cluster, and the metrics of its Prometheus, which panels read like a kind."""

from __future__ import annotations

from typing import Final

Kind = tuple[str, str]
"""API version and kind."""

POD: Final[Kind] = ("v1", "Pod")
EVENT: Final[Kind] = ("v1", "Event")
NODE: Final[Kind] = ("v1", "Node")
JOB: Final[Kind] = ("batch/v1", "Job")
DEPLOYMENT: Final[Kind] = ("apps/v1", "Deployment")
METRICS: Final[Kind] = ("prometheus", "Readings")
