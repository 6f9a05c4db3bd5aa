"""What pages show of a cluster, and the newest frame of each panel.

The observer fills these rows from its cache and publishes rendered panels; web processes only pass them on. The
newest frame of each panel stays in Redis, so that a page that was just opened, or missed a frame, can fetch it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import redis
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.conf import settings
from redis.exceptions import RedisError

from sessions.models import InterviewSession

GROUP = "panels"
MESSAGE_TYPE = "panels.frame"
KEEP_S = 24 * 3600
_REDIS_TIMEOUT_S = 1.0


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
    """A node with its GPUs; ``cpu`` in cores and ``memory`` with its unit, as text."""

    name: str
    ready: bool
    schedulable: bool
    arch: str
    product: str
    gpus: int
    gpus_used: int
    cpu: str
    memory: str

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


@dataclass(slots=True)
class LiveState:
    """A session's cluster as last heard. ``stale_since`` is set while the cluster does not answer."""

    pods: list[PodRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    workloads: list[WorkloadRow] = field(default_factory=list)
    synced_at: datetime | None = None
    stale_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A rendered panel. ``seq`` counts the frames of this panel from 1 for as long as Redis remembers."""

    seq: int
    html: str
    at: datetime


def snapshot(session: InterviewSession, panel: str, role: str) -> Frame | None:
    """Return the newest published frame; None where there is none or Redis does not answer."""
    try:
        return load(client(), str(session.uuid), role, panel)
    except (RedisError, OSError):
        return None


def store(connection: redis.Redis[Any], uuid: str, role: str, panel: str, frame: Frame) -> None:
    """Keep a frame as the newest one. Raises ``RedisError``."""
    key = _key(uuid, role, panel)
    with connection.pipeline(transaction=True) as pipe:
        pipe.hset(key, mapping={"seq": frame.seq, "html": frame.html, "at": frame.at.isoformat()})
        pipe.expire(key, KEEP_S)
        pipe.execute()


def load(connection: redis.Redis[Any], uuid: str, role: str, panel: str) -> Frame | None:
    """Return a stored frame. Raises ``RedisError``."""
    seq, html, at = connection.hmget(_key(uuid, role, panel), ["seq", "html", "at"])
    if seq is None or html is None or at is None:
        return None
    return Frame(int(seq), html.decode(), datetime.fromisoformat(at.decode()))


def client() -> redis.Redis[Any]:
    """Return this process's connection pool to Redis; its calls wait a second at most."""
    return _client(settings.REDIS_URL)


def channel_layer() -> RedisPubSubChannelLayer:
    """Return the layer over which frames travel."""
    layer = get_channel_layer()
    assert layer is not None  # settings name one
    return layer


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis[Any]:
    return redis.Redis.from_url(url, socket_timeout=_REDIS_TIMEOUT_S, socket_connect_timeout=_REDIS_TIMEOUT_S)


def _key(uuid: str, role: str, panel: str) -> str:
    return f"faultline:panel:{uuid}:{role}:{panel}"
