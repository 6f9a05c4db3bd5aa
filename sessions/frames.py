"""Frames and snapshots: how the observer's drawings reach the web processes.

A screen is what one role sees of one session. Each change of it is one frame with the next number of that screen.
Redis keeps the newest HTML of all its panels (the snapshot), written in the transaction that publishes the frame, so
that whoever missed a frame can tell by its number, and catch up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
import redis
from redis.exceptions import RedisError

from sessions import live
from sessions.templatetags.faultline import ago

CHANNEL = "faultline:frames"
OBSERVER_KEY = "faultline:observer"
OBSERVER_KEEP_S = 8  # without a sign of life for so long, what is kept may be out of date
KEEP_S = 24 * 3600
_PANEL = "panel:"
_AGO = re.compile('<time datetime="([^"]+)" title="[^"]*" data-ago="([a-z]*)">[^<]*</time>')


@dataclass(frozen=True, slots=True)
class Frame:
    """One change of a screen: ``changes`` travels to the browsers, ``panels`` is the whole HTML that Redis keeps."""

    seq: int
    at: datetime
    panels: Mapping[str, str]
    changes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All panels of a screen as of frame ``seq``; 0 where none was ever sent."""

    seq: int = 0
    panels: Mapping[str, str] = field(default_factory=dict)

    @property
    def html(self) -> str:
        """Return the panels one after the other."""
        return "".join(self.panels.values())

    def message(self) -> str:
        """Return what a browser is sent that has fallen behind."""
        return _json({"seq": self.seq, "all": self.html}).decode()


def publish(connection: redis.Redis[Any], uuid: str, role: str, frame: Frame) -> int:
    """Keep and send a frame; return the number that Redis knew before. Raises ``RedisError``.

    A number other than the frame's predecessor means that Redis has lost the other panels, or that somebody else
    draws this screen too: the next frame must then bring all of it.
    """
    key = screen_key(uuid, role)
    fields: dict[str | bytes, Any] = {f"{_PANEL}{name}": html for name, html in frame.panels.items()}
    with connection.pipeline(transaction=True) as pipe:
        pipe.hget(key, "seq")
        pipe.hset(key, mapping=fields | {"seq": frame.seq, "at": frame.at.isoformat()})
        pipe.expire(key, KEEP_S)
        pipe.publish(CHANNEL, encode(uuid, role, frame))
        before = pipe.execute()[0]
    return int(before or 0)


def encode(uuid: str, role: str, frame: Frame) -> bytes:
    """Return a frame as it travels: a line that says whose it is, and the JSON that browsers get as it is."""
    return f"{uuid} {role} {frame.seq}\n".encode() + _json({"seq": frame.seq, "panels": frame.changes})


def decode(data: bytes) -> tuple[str, str, int, str]:
    """Return session, role, number and text of an encoded frame."""
    head, _, body = data.partition(b"\n")
    uuid, role, seq = head.decode().split(" ")
    return uuid, role, int(seq), body.decode()


def last_seq(connection: redis.Redis[Any], uuid: str, role: str) -> int:
    """Return the number of a screen's newest frame, 0 where there is none. Raises ``RedisError``."""
    return int(connection.hget(screen_key(uuid, role), "seq") or 0)


def snapshot(uuid: str, role: str) -> Snapshot | None:
    """Return a screen's snapshot; None while Redis does not answer."""
    try:
        return parse_snapshot(live.client().hgetall(screen_key(uuid, role)))
    except (RedisError, OSError):
        return None


def panels_of(uuid: str, role: str, names: Sequence[str]) -> Snapshot | None:
    """Return a snapshot of some panels, with the screen's number; None while Redis does not answer."""
    fields = ["seq", *(f"{_PANEL}{name}" for name in names)]
    try:
        seq, *found = live.client().hmget(screen_key(uuid, role), fields)
    except (RedisError, OSError):
        return None
    return Snapshot(int(seq or 0), {name: html.decode() for name, html in zip(names, found, strict=True) if html})


def newest_seq(uuid: str, role: str) -> int | None:
    """Return the number of a screen's newest frame; None where Redis or every observer is away, or there is none."""
    try:
        with live.client().pipeline(transaction=False) as pipe:
            pipe.exists(OBSERVER_KEY)
            pipe.hget(screen_key(uuid, role), "seq")
            observed, seq = pipe.execute()
    except (RedisError, OSError):
        return None
    return int(seq) if observed and seq else None


def parse_snapshot(found: Mapping[bytes, bytes]) -> Snapshot:
    """Return a snapshot from the fields of its hash."""
    prefix = _PANEL.encode()
    panels = {
        name.removeprefix(prefix).decode(): html.decode() for name, html in found.items() if name.startswith(prefix)
    }
    return Snapshot(int(found.get(b"seq", 0)), panels)


def sign_of_life(connection: redis.Redis[Any]) -> None:
    """Say that an observer keeps the snapshots current. Raises ``RedisError``."""
    connection.set(OBSERVER_KEY, 1, ex=OBSERVER_KEEP_S)


def with_current_ages(html: str) -> str:
    """Return kept HTML with its relative times counted anew, for a page that is read without JavaScript."""
    return _AGO.sub(lambda found: str(ago(datetime.fromisoformat(found[1]), style=found[2])), html)


def screen_key(uuid: str, role: str) -> str:
    """Return the key of a screen's hash."""
    return f"faultline:screen:{uuid}:{role}"


def _json(message: Mapping[str, Any]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_NON_STR_KEYS)  # template tags give names of their own string type
