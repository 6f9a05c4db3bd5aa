"""Dates of the Gregorian calendar, of any second that fits into 64 bits (datetime ends with the year 9999)."""

from __future__ import annotations

import math
from typing import NamedTuple

_WRAP = 9_223_372_028_715_321_600
"""Where Go's calendar begins, in seconds before 1970: what lies before it comes round again."""


class Date(NamedTuple):
    """A moment in UTC: days since 1970, the second of its day, and what the calendar calls the day."""

    days: int
    second_of_day: int
    year: int
    month: int
    day: int


def moment(value: float) -> Date:
    """Return the date of a number of seconds since 1970; what is no such number is the least that fits."""
    fits = math.isfinite(value) and abs(value) < 2.0**63
    seconds = ((int(value) if fits else -(2**63)) + _WRAP) % 2**64 - _WRAP
    days, rest = divmod(seconds, 86400)
    return _civil(days)._replace(second_of_day=rest)


def date(year: int, month: int, day: int) -> Date:
    """Return a day of the calendar."""
    counted = year - (month <= 2)
    era, of_era = divmod(counted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return Date(era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468, 0, year, month, day)


def _civil(days: int) -> Date:
    """Return a day by its number; years are counted from March, so that leap days come last."""
    era, of_era = divmod(days + 719468, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return Date(days, 0, year + era * 400 + (month <= 2), month, day)
