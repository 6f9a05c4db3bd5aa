"""Client of the practice clusters' control API (``kubesim host``): makes, watches and drops clusters."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import urllib3
from django.conf import settings

from faults import clock
from faults.errors import ClusterError, Forbidden, Invalid, NotFound, Unreachable
from faults.practice_shape import PracticeShape

TIMEOUT_S, MAKE_TIMEOUT_S, SKIP_TIMEOUT_S = 10, 30, 60
POOLED = 8
"""Connections that are kept; those of more threads at once are closed after their request."""
Obj = dict[str, Any]
_ERRORS: dict[int, type[ClusterError]] = {400: Invalid, 401: Forbidden, 404: NotFound, 422: Invalid}


@dataclass(frozen=True, slots=True)
class Restarts:
    """New starts of a cluster's process, after it had hung or died."""

    count: int
    removed: tuple[str, ...]
    """The objects over which it hung again and again, and which were taken out of it: resource and name."""


def health() -> Obj:
    """Return what the host says of itself: ``status`` and the number of clusters. Raises ClusterError."""
    return _ask("GET", "/control/health")


def create(
    name: str,
    deadline: datetime,
    shape: PracticeShape = PracticeShape(),  # noqa: B008 - frozen
    images: Sequence[Obj] = (),
    present: Sequence[str] = (),
    *,
    skips: bool = False,
) -> Obj:
    """Make a cluster, or return the one of that name: ``kubeconfig``, ``server`` and more. Raises ClusterError.

    Its registries serve ``images`` beside the public ones; those ``present`` are on its nodes already. The time of
    one that ``skips`` can be moved on.
    """
    body = {
        "name": name,
        **shape.dump(),
        **({"images": images} if images else {}),
        **({"present": present} if present else {}),
        **({"skips": True} if skips else {}),
        "ttlSeconds": max(0, round((deadline - clock.now()).total_seconds())),  # the wall clock may be set
    }
    return _ask("POST", "/control/clusters", body, MAKE_TIMEOUT_S)


def create_guide(body: Obj) -> Obj:
    """Make a cluster of guide mode, which only a host that was started with ``--guide`` does. Raises ClusterError."""
    return _ask("POST", "/control/clusters", body, MAKE_TIMEOUT_S)


def exists(name: str) -> bool:
    """Return whether the host still has the cluster; it drops clusters by itself at their deadline."""
    try:
        _ask("GET", f"/control/clusters/{quote(name, safe='')}")
    except NotFound:
        return False
    return True


def restarts(name: str) -> Restarts:
    """Return how often the cluster was started again, and without which objects. Raises ClusterError."""
    told = _ask("GET", f"/control/clusters/{quote(name, safe='')}")
    return Restarts(told["restarts"], tuple(_place(found) for found in told["removed"]))


def skip(name: str, seconds: float, *, commands: bool = False) -> float:
    """Move the time of a cluster on that was made for that: what is due meanwhile happens. Raises ClusterError.

    With ``commands`` it is moved on only while a remote command runs. Returned is how far it was moved.
    """
    body = {"seconds": seconds, "commands": commands}
    return float(_ask("POST", f"/control/clusters/{quote(name, safe='')}/skip", body, SKIP_TIMEOUT_S)["skipped"])


def checkpoint(name: str) -> None:
    """Let ``rollback`` give a cluster back as it is now, processes in containers included. Raises ClusterError.

    The time of the cluster has to be one that can be moved on. All connections to it end.
    """
    _ask("POST", f"/control/clusters/{quote(name, safe='')}/checkpoint", None, SKIP_TIMEOUT_S)


def rollback(name: str) -> None:
    """Give a cluster back as it was at its last checkpoint, which is one no more. Raises ClusterError."""
    _ask("POST", f"/control/clusters/{quote(name, safe='')}/rollback", None, SKIP_TIMEOUT_S)


def drop(name: str) -> None:
    """Drop a cluster; nothing where it is gone already."""
    try:
        _ask("DELETE", f"/control/clusters/{quote(name, safe='')}")
    except NotFound:
        return


def _place(removed: Obj) -> str:
    name = "/".join(filter(None, (removed["namespace"], removed["name"])))
    return f"{removed['resource'].partition('.')[0]} {name}"


def _ask(method: str, path: str, body: Obj | None = None, timeout_s: float = 0) -> Obj:
    url = urlsplit(settings.KUBESIM_URL)
    pool = _pool(url.netloc, _ca_pem(settings.KUBESIM_CA_FILE), os.getpid())
    headers = {"Authorization": f"Bearer {_token(settings.KUBESIM_TOKEN_FILE)}", "Content-Type": "application/json"}
    try:
        response = pool.urlopen(
            method,
            url.path + path,
            json.dumps(body) if body is not None else None,
            headers,
            retries=False,
            redirect=False,
            timeout=timeout_s or TIMEOUT_S,
        )
    except (urllib3.exceptions.HTTPError, OSError) as exc:
        raise _not_running(str(exc).split(": ", 1)[-1] or type(exc).__name__) from exc
    return _answer(response.status, response.data)


def _answer(status: int, data: bytes) -> Obj:
    try:
        answer = json.loads(data)
    except ValueError:
        answer = {}
    if not isinstance(answer, dict):
        answer = {}
    if 200 <= status < 300:
        return answer
    message = str(answer.get("error") or f"The practice cluster host answered {status}.")
    if status >= 500:
        raise Unreachable(message)
    raise _ERRORS.get(status, ClusterError)(message)


def _ca_pem(ca_file: Path) -> str:
    try:
        return ca_file.read_bytes().decode("ascii", "ignore")
    except OSError as exc:
        raise _not_running(f"{ca_file.name} cannot be read") from exc


@lru_cache(maxsize=4)
def _pool(place: str, ca_pem: str, process: int) -> urllib3.HTTPSConnectionPool:
    """Return the connections of a process to a host: they are kept, and shared with none of its forks."""
    address = urlsplit(f"https://{place}")
    context = ssl.create_default_context(cadata=ca_pem)
    return urllib3.HTTPSConnectionPool(address.hostname or "", address.port, maxsize=POOLED, ssl_context=context)


def _token(token_file: Path) -> str:
    try:
        return token_file.read_text(encoding="ascii").strip()
    except OSError as exc:
        raise _not_running(f"{token_file.name} cannot be read") from exc


def _not_running(why: str) -> Unreachable:
    return Unreachable(f"The practice clusters at {settings.KUBESIM_URL} cannot be reached ({why}). Run: make run")
