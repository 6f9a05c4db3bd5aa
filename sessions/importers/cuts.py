"""Cuts of a plan: shorter forms of it, each a line of text with the minutes that its parts have then.

``90: 10 30 20 15 15`` is a cut of 90 minutes of a plan with five parts; ``-`` leaves a part out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sessions.part_minutes import SHORTEST

MAX_CUTS = 6
LEFT_OUT = "-"
_LINE = re.compile(r"(\d{1,3}): *((?:\d{1,3}|-)(?: +(?:\d{1,3}|-))*)")

Cut = dict[str, Any]
HELP = "One a line: its minutes and those of each part, such as “90: 10 30 20 15 15”; “-” leaves a part out."


class CutProblem(Exception):
    """A line is no cut of the plan; the message says why."""


def parse_cuts(lines: Iterable[str], planned: Sequence[int]) -> list[Cut]:
    """Return the cuts of a plan whose parts have these minutes, the longest first. Raises CutProblem."""
    cuts = [_parse_cut(line.strip(), planned) for line in lines if line.strip()]
    if len(cuts) > MAX_CUTS:
        raise CutProblem(f"There are {len(cuts)} cuts; a plan has at most {MAX_CUTS}.")
    minutes = [cut["minutes"] for cut in cuts]
    if twice := next((each for each in minutes if minutes.count(each) > 1), None):
        raise CutProblem(f"There are two cuts of {twice} minutes.")
    return sorted(cuts, key=lambda cut: -cut["minutes"])


def format_cuts(cuts: Iterable[Cut]) -> list[str]:
    """Return the lines that ``parse_cuts`` reads."""
    return [f"{cut['minutes']}: {' '.join(str(part or LEFT_OUT) for part in cut['parts'])}" for cut in cuts]


def _parse_cut(line: str, planned: Sequence[int]) -> Cut:
    found = _LINE.fullmatch(line)
    if found is None:
        raise CutProblem(f"Cut “{line[:60]}”: write it as “90: 10 30 - 15 35”, with a number for each part, or “-”.")
    total, parts = int(found[1]), [None if word == LEFT_OUT else int(word) for word in found[2].split()]
    if len(parts) != len(planned):
        raise CutProblem(f"Cut “{line}”: it has {len(parts)} numbers, and the plan has {len(planned)} parts.")
    for number, (minutes, most) in enumerate(zip(parts, planned, strict=True), 1):
        if minutes is not None and not 1 <= minutes <= most:
            raise CutProblem(f"Cut “{line}”: part {number} has 1 to {most} minutes, or “-” if it is left out.")
    if sum(filter(None, parts)) != total:
        raise CutProblem(f"Cut “{line}”: its parts take {sum(filter(None, parts))} minutes.")
    if not SHORTEST <= total < sum(planned):
        raise CutProblem(f"Cut “{line}”: it takes at least {SHORTEST} minutes, and fewer than the whole plan.")
    return {"minutes": total, "parts": parts}
