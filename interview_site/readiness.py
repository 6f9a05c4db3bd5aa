"""Whether every process answers: asked by ``up`` and by ``/readyz``."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable

import redis
from django.conf import settings
from django.db import connection
from django.utils import timezone
from rq import Worker

from faults import practice
from faults.errors import ClusterError
from faults.models import Lease

OBSERVER_LEASE = "observer"


def web() -> bool:
    """Return whether the web process answers."""
    host = f"[{settings.BIND}]" if ":" in settings.BIND else settings.BIND
    request = urllib.request.Request(f"http://{host}:{settings.PORT}/healthz", headers={"Host": settings.PUBLIC_HOST})
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def worker() -> bool:
    """Return whether a worker has registered in Redis."""
    try:
        client = redis.from_url(settings.REDIS_URL)
        return Worker.count(connection=client) > 0
    except redis.RedisError:
        return False


def observer() -> bool:
    """Return whether some observer holds the lease."""
    lease = Lease.objects.filter(name=OBSERVER_LEASE).first()
    return lease is not None and lease.until is not None and lease.until > timezone.now()


def clusters() -> bool:
    """Return whether practice clusters can be made."""
    try:
        practice.health()
    except ClusterError:
        return False
    return True


PROBES: dict[str, Callable[[], bool]] = {"clusters": clusters, "web": web, "worker": worker, "observer": observer}


def missing(probes: Iterable[str] = PROBES) -> list[str]:
    """Return the names of what does not answer."""
    return [name for name in probes if not PROBES[name]()]


def wait(limit: float = 60.0, pause: float = 0.1) -> float | None:
    """Return the seconds until everything answered, or None where it did not within ``limit`` seconds."""
    start, waiting = time.monotonic(), list(PROBES)
    stop = threading.Event()
    while waiting and time.monotonic() - start < limit:
        waiting = missing(waiting)
        stop.wait(pause if waiting else 0)
    connection.close()
    return None if waiting else time.monotonic() - start
