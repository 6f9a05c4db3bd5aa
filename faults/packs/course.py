"""The course that a pack expects: par time, milestones, and points to discuss."""

from __future__ import annotations

from dataclasses import dataclass

from faults.packs.errors import PackError
from faults.packs.model import Obj

DOCUMENT = "scenario.yaml"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A place on a good candidate's way. ``par`` is in minutes from the scenario's beginning.

    It is reached once all of its ``checks`` pass; one without any is ticked by an interviewer.
    """

    key: str
    title: str
    par: int
    checks: tuple[str, ...] = ()


def milestones(document: Obj) -> tuple[Milestone, ...]:
    """Return the milestones, in order."""
    rows = document.get("milestones", [])
    return tuple(Milestone(row["key"], row["title"], row["par"], tuple(row.get("checks", []))) for row in rows)


def check_course(document: Obj) -> None:
    """Raise ``PackError`` for times that do not fit together, repeated keys, and unknown checks."""
    par = int(document.get("par", 0))
    if par > document["minutes"]:
        raise PackError(DOCUMENT, "par", f"is more than the scenario's {document['minutes']} minutes")
    found = milestones(document)
    if found and not par:
        raise PackError(DOCUMENT, "par", "is needed beside milestones: the minutes in which a good candidate is done")
    known = {row["key"] for row in document.get("checks", [])}
    names = ", ".join(sorted(known))
    latest = 0
    for number, milestone in enumerate(found):
        where = f"milestones.{number}"
        if not latest <= milestone.par <= par:
            raise PackError(DOCUMENT, f"{where}.par", f"is not between {latest} and {par}: they stand in order")
        latest = milestone.par
        if unknown := [key for key in milestone.checks if key not in known]:
            raise PackError(DOCUMENT, f"{where}.checks", f"{unknown[0]} is no check; there are {names}")
