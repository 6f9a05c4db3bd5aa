"""The boot clock, which nobody can set and all processes of a boot share: deadlines that outlive a restart use it."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from kubesim.api.durations import parse_time
from kubesim.errors import Obj
from kubesim.times import micro

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MAX_DRIFT = timedelta(seconds=2)
"""Less than that is no step of the wall clock."""


def boot_s() -> float:
    """Return the seconds since the boot, those included in which the machine slept where it can tell them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id() -> str:
    """Return what names this boot; empty where the machine does not tell, and only the wall clock is left."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""


def dump_deadline(deadline: datetime | None, now: datetime) -> Obj:
    """Return a deadline as it is noted: by the wall clock, and by the boot clock."""
    if deadline is None:
        return {"deadline": None}
    return {"deadline": micro(deadline), "boot": boot_id(), "due": boot_s() + (deadline - now).total_seconds()}


def load_deadline(noted: Obj, now: datetime) -> datetime | None:
    """Return a noted deadline by a clock that says ``now``, which may have been set since it was noted."""
    deadline = parse_time(noted["deadline"])
    if deadline is None or not noted.get("boot") or noted["boot"] != boot_id():
        return deadline
    by_boot = now + timedelta(seconds=noted["due"] - boot_s())
    return deadline if abs(by_boot - deadline) < MAX_DRIFT else by_boot
