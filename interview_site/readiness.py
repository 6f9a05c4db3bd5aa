"""Whether every process answers: asked by ``up`` and by ``/readyz``."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable

import redis
from django.conf import settings
from django.db import connection
from rq import Worker

from faults import clock, practice
from faults.errors import ClusterError
from faults.models import Lease

OBSERVER_LEASE = "observer"


def web() -> bool:
    """Return whether the web process answers."""
    url = f"http://{_in_url(settings.BIND)}:{settings.PORT}/healthz"
    request = urllib.request.Request(url, headers={"Host": _in_url(settings.PUBLIC_HOST)})
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


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
    return lease is not None and lease.until is not None and lease.until > clock.now()


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


def wait(since: float, limit: float = 60.0, pause: float = 0.05) -> tuple[float, list[str]]:
    """Wait until everything answers: the seconds since ``since``, and what did not answer in ``limit`` of them."""
    waiting = list(PROBES)
    while waiting and time.monotonic() - since < limit:
        waiting = missing(waiting)
        if waiting:
            time.sleep(pause)
    connection.close()
    return time.monotonic() - since, waiting
