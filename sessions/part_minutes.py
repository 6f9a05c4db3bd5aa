"""Minutes of an interview's parts, and of an interview that is shorter than they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHORTEST, LONGEST = 5, 450
"""Minutes of an interview; with the grace time the longest stays inside the 8 hours of a fault."""


def scale(planned: Sequence[int], minutes: int) -> list[int]:
    """Return the minutes of each part in proportion, with ``minutes`` for their sum.

    No part is left without a minute, even where the parts outnumber the minutes.
    """
    exact = [minutes * part / max(sum(planned), 1) for part in planned]
    scaled = [max(1, int(part)) for part in exact]
    by_rest = sorted(range(len(exact)), key=lambda index: int(exact[index]) - exact[index])
    for index in by_rest[: max(0, minutes - sum(scaled))]:
        scaled[index] += 1
    while sum(scaled) > minutes and max(scaled) > 1:
        scaled[scaled.index(max(scaled))] -= 1
    return scaled


def cut(parts: Sequence[dict[str, Any]], minutes: Sequence[int | None]) -> list[dict[str, Any]]:
    """Return the parts with these minutes, without those that have none."""
    return [{**part, "minutes": new} for part, new in zip(parts, minutes, strict=True) if new is not None]


def room(planned: Sequence[int], minutes: int) -> list[int | None]:
    """Return how many minutes are left for each part once those before it are over; None where all of them are."""
    starts = [sum(planned[:index]) for index in range(len(planned))]
    return [
        None if start + part <= minutes else max(0, minutes - start)
        for start, part in zip(starts, planned, strict=True)
    ]


def misfit(titles: Sequence[str], planned: Sequence[int], minutes: int) -> str:
    """Return a sentence that names the parts which do not fit."""
    told = [
        f"“{title}” has {left} of its {part} minutes" if left else f"“{title}” has no time"
        for title, part, left in zip(titles, planned, room(planned, minutes), strict=True)
        if left is not None
    ]
    return f"The parts need {sum(planned)} minutes, and there are {minutes}: {'; '.join(told)}."
