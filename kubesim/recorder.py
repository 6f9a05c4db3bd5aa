"""Events as client-go records them: repeats are counted, floods are combined, and a talkative object is throttled.

The figures are client-go's defaults: after 10 similar messages in 10 minutes the rest are combined, and one object
gets 25 events at once and then one every 5 minutes from each source.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import Obj, tolerating
from kubesim.times import micro, stamp

BURST = 25.0
REFILL_S = 300.0
SIMILAR_LIMIT = 10
SIMILAR_WINDOW_S = 600.0
SERIES_WINDOW_S = 360.0
CACHE_SIZE = 4096
KEPT_S = 3600.0
"""How long an event is there to be counted on, at most."""
COMBINED = "(combined from similar events): "


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: datetime


@dataclass(slots=True)
class _Similar:
    messages: list[str]
    at: datetime


@dataclass(slots=True)
class _Written:
    name: str
    count: int
    at: datetime


class Recorder:
    """Writes the events of one component (``source``), from ``host`` where it runs on a node."""

    def __init__(self, client: Client, clock: Clock, source: str, host: str = "", *, series: bool = False) -> None:
        self._client = client
        self._clock = clock
        self._source = source
        self._host = host
        self._series = series
        self._last = 0
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Similar] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    async def normal(self, obj: Obj, reason: str, message: str, *, path: str = "", action: str = "") -> None:
        """Record a Normal event; ``path`` is a fieldPath such as ``spec.containers{main}``."""
        await self._record(reference(obj, path), "Normal", reason, message, action)

    async def warning(
        self, obj: Obj, reason: str, message: str, *, path: str = "", action: str = "", notes: Obj | None = None
    ) -> None:
        """Record a Warning event; ``notes`` are its annotations."""
        await self._record(reference(obj, path), "Warning", reason, message, action, notes)

    async def _record(
        self, ref: Obj, kind: str, reason: str, message: str, action: str, notes: Obj | None = None
    ) -> None:
        now = self._clock.now()
        key: tuple[str, ...] = (ref["uid"], ref["name"], ref.get("fieldPath", ""), kind, reason)
        combined = False
        if not self._series:
            if not self._allowed(ref["uid"] or ref["name"], now):
                return
            combined = self._is_flood(key, message, now)
        if combined:
            message = COMBINED + message
        else:
            # A series goes on whatever its events say, as long as the object has not changed.
            key = (*key, ref["resourceVersion"], action) if self._series else (*key, message)
        # As upstream: events tell of the work, they never hold it up (a terminating namespace refuses them).
        with suppress(ConnectionError), tolerating(403, 404, 409):
            await self._write(key, ref, kind, reason, message, action, now, notes)

    async def _write(
        self, key: tuple[str, ...], ref: Obj, kind: str, reason: str, message: str, action: str, now: datetime,
        notes: Obj | None,
    ) -> None:  # fmt: skip
        old = self._written.get(key)
        if old is not None and await self._count(old, ref["namespace"] or "default", message, now):
            return
        event = self._event(ref, kind, reason, message, action, now)
        if notes:
            event["metadata"]["annotations"] = dict(notes)
        if message.startswith(COMBINED):
            del event["reportingComponent"]  # upstream's combined events have none
        await self._client.create("events", event, namespace=event["metadata"]["namespace"])
        self._written[key] = _Written(event["metadata"]["name"], 1, now)
        _trim(self._written, now, KEPT_S)

    async def _count(self, old: _Written, namespace: str, message: str, now: datetime) -> bool:
        """Add one to an event written before; False if it is gone or too old to go on with."""
        if self._series and (now - old.at).total_seconds() > SERIES_WINDOW_S:
            return False
        old.count += 1
        old.at = now
        patch: Obj = {"count": old.count, "lastTimestamp": stamp(now), "message": message}
        if self._series:
            patch = {"series": {"count": old.count, "lastObservedTime": micro(now)}}
        with tolerating(404):
            await self._client.patch("events", old.name, namespace, patch)
            return True
        return False

    def _event(self, ref: Obj, kind: str, reason: str, message: str, action: str, now: datetime) -> Obj:
        nanoseconds = self._unique(int(now.timestamp()) * 10**9 + now.microsecond * 1000)
        event: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{ref['name']}.{nanoseconds:x}", "namespace": ref["namespace"] or "default"},
            "involvedObject": {name: value for name, value in ref.items() if value},
            "type": kind,
            "reason": reason,
            "message": message,
            "reportingComponent": self._source,
            "reportingInstance": self._host,
        }
        if self._series:
            instance = f"{self._source}-control-plane"
            return event | {"eventTime": micro(now), "action": action, "reportingInstance": instance, "source": {}}
        source = {"component": self._source} | ({"host": self._host} if self._host else {})
        at = stamp(now)
        return event | {"source": source, "count": 1, "firstTimestamp": at, "lastTimestamp": at, "eventTime": None}

    def _unique(self, nanoseconds: int) -> int:
        """Names come from the time: no two events of one moment may share one, nor those of two sources."""
        offset = zlib.crc32(f"{self._source}/{self._host}".encode()) % 500
        self._last = max(nanoseconds + offset, self._last + 1)
        return self._last

    def _allowed(self, owner: str, now: datetime) -> bool:
        bucket = self._buckets.setdefault(owner, _Bucket(BURST, now))
        _trim(self._buckets, now, BURST * REFILL_S)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at).total_seconds() / REFILL_S)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _is_flood(self, key: tuple[str, ...], message: str, now: datetime) -> bool:
        """Tell whether an object has had so many different messages that the rest become one event."""
        seen = self._similar.setdefault(key, _Similar([], now))
        _trim(self._similar, now, SIMILAR_WINDOW_S)
        if (now - seen.at).total_seconds() > SIMILAR_WINDOW_S:
            seen.messages.clear()
        if message not in seen.messages:
            seen.messages.append(message)
        seen.at = now
        return len(seen.messages) >= SIMILAR_LIMIT


def reference(obj: Obj, path: str = "") -> Obj:
    """Return the ObjectReference of an event's ``involvedObject``."""
    meta = obj["metadata"]
    known = {name: meta.get(name, "") for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **known, "fieldPath": path}


def _trim(cache: OrderedDict[Any, Any], now: datetime, seconds: float) -> None:
    """Forget what there is too much of, and what is too old to matter."""
    if len(cache) > CACHE_SIZE or (now - next(iter(cache.values())).at).total_seconds() > seconds:
        cache.popitem(last=False)


def node_reference(name: str) -> Obj:
    """Return a node as a kubelet names its own: the name stands for the uid."""
    return {"apiVersion": "", "kind": "Node", "metadata": {"name": name, "uid": name}}
