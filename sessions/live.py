"""Rows that pages show of a cluster, and the connection to Redis over which they travel once they are drawn.

The observer fills the rows from its cache; ``frames`` takes their HTML from there to the web processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings

from faults.metrics import GpuReading
from faults.nvsentinel import GpuFault, Stage, Verdict
from sessions.kinds import Kind

_REDIS_TIMEOUT_S = 1.0
SWITCH_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod in kubectl's words. ``intended``: it is broken, and the scenario's symptom says that it should be.

    ``broken`` pods are shown first; a pod that restarts again and again stays one between two crashes.
    """

    namespace: str
    name: str
    ready: str
    status: str
    restarts: int
    node: str
    created_at: datetime | None
    message: str
    gpus: int
    intended: bool
    broken: bool = False


@dataclass(frozen=True, slots=True)
class EventRow:
    """A Kubernetes event. ``object`` is kind and name, as in ``Pod/web-0``."""

    at: datetime | None
    type: str
    reason: str
    object: str
    message: str
    count: int
    namespace: str
    name: str = ""

    @property
    def key(self) -> str:
        """Return the event's own name: one object may have several with the same reason."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node with its GPUs; ``cpu`` in cores and ``memory`` with its unit, as text.

    ``readings`` is what Prometheus tells of the GPUs; empty where it tells nothing. ``for_toolbox``: it is there for
    the candidate's toolbox alone, and nothing that is counted.
    """

    name: str
    ready: bool
    schedulable: bool
    arch: str
    product: str
    gpus: int
    gpus_used: int
    cpu: str
    memory: str
    readings: tuple[GpuReading, ...] = ()
    for_toolbox: bool = False

    @property
    def key(self) -> str:
        """Return the node's name."""
        return self.name


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """A job or deployment; ``summary`` is how far it has come, as in ``0/1 completions``."""

    namespace: str
    kind: str
    name: str
    summary: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class SentinelRow:
    """NVSentinel's pipeline for one fault."""

    fault: GpuFault
    stages: tuple[Stage, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SentinelState:
    """NVSentinel in the session's cluster."""

    is_installed: bool
    rows: tuple[SentinelRow, ...] = ()


@dataclass(slots=True)
class LiveState:
    """A session's cluster as last heard. ``stale_since`` is set while the cluster does not answer.

    ``metrics_at`` is when Prometheus last told anything, ``metrics_error`` why it does not now; ``gpus_at`` is when
    it last told of GPUs, ``no_gpus`` who knows of none now.
    """

    pods: list[PodRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    workloads: list[WorkloadRow] = field(default_factory=list)
    synced_at: datetime | None = None
    stale_since: datetime | None = None
    metrics_at: datetime | None = None
    metrics_error: str = ""
    gpus_at: datetime | None = None
    no_gpus: str = ""
    sentinel: SentinelState | None = None
    objects: Callable[[Kind], list[dict[str, Any]]] = field(default=lambda kind: [])
    """The session's objects of a kind, and those of no namespace, for panels that read a kind of their own."""


def switch_threads_promptly() -> None:
    """Let a thread that computes give way after half a millisecond, for a process that takes frames to browsers.

    A frame passes through several threads, and each would wait for up to 5 ms (CPython's default) at every turn
    while another evaluates checks or looks up permissions.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def client() -> redis.Redis[Any]:
    """Return this process's connection pool to Redis; its calls wait a second at most."""
    return _client(settings.REDIS_URL)


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis[Any]:
    return redis.Redis.from_url(url, socket_timeout=_REDIS_TIMEOUT_S, socket_connect_timeout=_REDIS_TIMEOUT_S)
