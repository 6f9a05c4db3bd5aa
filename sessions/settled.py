"""Scenarios whose verdicts stand, because a later part has laid its faults into the Terraform code they are about.

What a later part breaks is our doing. Without this, the work of an earlier part would be undone in front of the
candidate, and its guards would be broken, by the fault that comes next.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from faults.models import FaultRun
from faults.packs import Pack
from sessions.models import SessionScenario
from sessions.selectors import pack_for

_UNTOUCHED = (FaultRun.Status.PLANNED, FaultRun.Status.REVERTED)


def settler(scenario: SessionScenario, pack: Pack, others: Iterable[SessionScenario]) -> SessionScenario | None:
    """Return the one of ``others`` (with run, stage and version) whose injection settled this scenario, if any did.

    One that was skipped and taken back settles nothing; nor does one that is there from the start, since then the
    candidate has both before them.
    """
    if pack.workspace is None:
        return None
    return next((other for other in others if _comes_later(other, scenario) and pack_for(other).reworks(pack)), None)


def settles(scenario: SessionScenario, others: Iterable[SessionScenario]) -> list[SessionScenario]:
    """Return the open scenarios that the start of this one would settle as they stand."""
    pack = pack_for(scenario)
    open_ones = [other for other in others if other.is_open and other.position < scenario.position]
    return [other for other in open_ones if pack.reworks(pack_for(other))]


def is_settled(scenario: SessionScenario, pack: Pack) -> bool:
    """Return the same from the database as it is now: its run says that it injects before it changes anything."""
    if pack.workspace is None:
        return False
    later = Q(position__gt=scenario.position, stage__isnull=False, run__isnull=False)
    others = SessionScenario.objects.filter(later, session=scenario.session_id)
    return settler(scenario, pack, others.select_related("run", "stage", "scenario_version__scenario")) is not None


def _comes_later(other: SessionScenario, scenario: SessionScenario) -> bool:
    if other.stage is None or other.run is None or other.position <= scenario.position:
        return False
    return other.stage.began_at is not None or other.run.status not in _UNTOUCHED
