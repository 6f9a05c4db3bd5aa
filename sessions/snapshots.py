"""The snapshot of a screen as HTTP serves it: read, joined and compressed once for all who fetch it."""

from __future__ import annotations

import gzip
from dataclasses import dataclass

from faults.plain_text import plain
from sessions import frames

MAX_KEPT = 64
_kept: dict[tuple[str, str], SharedSnapshot] = {}


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """All panels of a screen as of frame ``seq``."""

    seq: int
    html: bytes
    zipped: bytes


def newest(uuid: str, role: str) -> SharedSnapshot | None:
    """Return the newest snapshot; None where nobody keeps one current, so that it has to be drawn."""
    seq = frames.newest_seq(uuid, role)
    if seq is None:
        return None
    kept = _kept.get((uuid, role))
    if kept is None or kept.seq != seq:
        found = frames.snapshot(uuid, role)
        if found is None or not found.seq:
            return None
        html = plain(found.html).encode()  # no middleware looks into what is compressed
        kept = SharedSnapshot(found.seq, html, gzip.compress(html, 6, mtime=0))
        _keep((uuid, role), kept)
    return kept


def _keep(screen: tuple[str, str], snapshot: SharedSnapshot) -> None:
    _kept.pop(screen, None)
    _kept[screen] = snapshot
    for oldest in list(_kept)[:-MAX_KEPT]:
        _kept.pop(oldest, None)
