"""Schedules of cron jobs: checked in the words of upstream's parser, reckoned by croniter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterBadDateError, croniter

from kubesim.times import parse_go_duration

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: at + 1 for at, name in enumerate(MONTHS)}),
    (0, 6, {name: at for at, name in enumerate(DAYS)}),
)
"""Least, greatest and names of minute, hour, day, month, weekday."""
DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
NUMBER = re.compile(r"[+-]?[0-9]+")
MOST_DIGITS = 18
"""Of what surely is a number of 64 bits."""
NEVER = "0 0 31 2 *"
"""What a schedule becomes of which a field has no entry at all."""


class ScheduleError(ValueError):
    """A schedule that cannot be read; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When something happens: a cron expression, or every so many seconds."""

    expression: str
    every_s: float
    zone: tzinfo

    def after(self, moment: datetime) -> datetime:
        """Return the first time after ``moment``, in UTC. Raises ``ScheduleError`` where there is none."""
        if self.every_s:
            return moment.replace(microsecond=0) + timedelta(seconds=self.every_s)
        try:
            found: datetime = croniter(self.expression, moment.astimezone(self.zone)).get_next(datetime)
        except CroniterBadDateError as error:
            raise ScheduleError("time difference between two schedules is less than 1 second") from error
        return found.astimezone(UTC)


def parse(text: str, zone: str | None = None) -> Schedule:
    """Read a schedule, in a named time zone or in UTC. Raises ``ScheduleError``."""
    text, zone = _without_zone(text, zone)
    where = ZoneInfo(zone) if zone else UTC
    if text.startswith("@every "):
        return Schedule("", _duration(text), where)
    if text.startswith("@"):
        if text not in DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        return Schedule(text, 0.0, where)
    if not text:
        raise ScheduleError("empty spec string")
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _check(part, low, high, names)
    kept = [",".join(filter(None, field.replace("?", "*").split(","))) for field in fields]
    return Schedule(" ".join(kept) if all(kept) else NEVER, 0.0, where)


def _without_zone(text: str, zone: str | None) -> tuple[str, str | None]:
    """Return a schedule without the time zone that it may begin with (``TZ=Etc/UTC 0 * * * *``), and the zone."""
    if not text.startswith(("TZ=", "CRON_TZ=")):
        return text, zone
    told, _, rest = text.partition(" ")
    named = told.partition("=")[2]
    try:
        ZoneInfo(named or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"provided bad location {named}: unknown time zone {named}") from error
    return rest.strip(), named or None


def _duration(text: str) -> float:
    """Return a duration in seconds, of one second at least."""
    try:
        return max(1.0, float(int(parse_go_duration(text.removeprefix("@every ")))))
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from error


def _check(part: str, low: int, high: int, names: dict[str, int]) -> None:
    """Raise for one entry of a field: ``*``, ``5``, ``1-5``, ``*/15``, ``mon-fri``."""
    span, slash, step = part.partition("/")
    if "/" in step:
        raise ScheduleError(f"too many slashes: {part}")
    first, dash, last = span.partition("-")
    if "-" in last:
        raise ScheduleError(f"too many hyphens: {part}")
    if first in ("*", "?"):
        start, end = low, high
    else:
        start = _number(first, names)
        end = _number(last, names) if dash else high if slash else start
    if slash and _number(step, {}) == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not NUMBER.fullmatch(text):
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text.lstrip("+-0")) > MOST_DIGITS:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    number = int(text.lstrip("+-0") or "0") * (-1 if text[0] == "-" else 1)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
