"""Runs the phases of preparing and of releasing: one after the other, visible, and continued where they failed."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from django.db import transaction

from faults import leases
from faults.errors import ClusterError, FaultError, LeaseHeld, StaleEpoch
from faults.packs import PackError
from sessions import clock, events
from sessions.models import InterviewSession, PreparationPhase, SessionScenario
from sessions.services.patience import patiently

LEASE_SECONDS = 8.0  # kept by every report; a worker that dies is replaced once it is over
PREPARE, RELEASE = "prepare", "release"
Status = PreparationPhase.Status


@dataclass
class Work:
    """One phase being worked on by one worker."""

    session: InterviewSession
    phase: PreparationPhase
    holder: str
    epoch: int

    def report(self, _phase: str, detail: str) -> None:
        """Show the newest line of progress, and keep the lease."""
        PreparationPhase.objects.filter(pk=self.phase.pk).update(detail=detail)
        if not leases.renew(lease_name(self.session.pk), self.holder, self.epoch, LEASE_SECONDS, clock.now()):
            raise StaleEpoch("another worker took over this session")

    def scenario(self) -> SessionScenario:
        """Return the scenario that this phase's key names."""
        slug = self.phase.key.partition(":")[2]
        scenarios = self.session.scenarios.select_related("run", "scenario_version__scenario")
        return scenarios.get(scenario_version__scenario__slug=slug)


Worker = Callable[[Work], None]


def lease_name(session_id: int) -> str:
    """Return the lease that preparing and releasing share: never both at once."""
    return f"session:{session_id}"


def holder_name() -> str:
    """Return a name for this execution of a job."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def add(session: InterviewSession, titles: Iterable[tuple[str, str]]) -> None:
    """Append phases as (key, title) after those that the session has."""
    first = session.phases.count()
    PreparationPhase.objects.bulk_create(
        PreparationPhase(session=session, key=key, title=title, position=first + index)
        for index, (key, title) in enumerate(titles)
    )


def run(session_id: int, workers: Mapping[str, Worker], wanted: Callable[[InterviewSession], bool]) -> bool:
    """Work through the phases that ``workers`` knows by the part of the key before the colon.

    Returns True when all are done; False when another worker is on it, one failed, or it is no longer wanted.
    """
    holder = holder_name()
    epoch = leases.acquire(lease_name(session_id), holder, LEASE_SECONDS, clock.now())
    if epoch is None:
        return False
    try:
        return all(
            _step(session_id, phase, workers, wanted, holder, epoch)
            for phase in PreparationPhase.objects.filter(session_id=session_id).exclude(status=Status.DONE)
            if _kind(phase) in workers
        )
    except (LeaseHeld, StaleEpoch):
        return False
    finally:
        leases.release(lease_name(session_id), holder, epoch)


def _step(
    session_id: int,
    phase: PreparationPhase,
    workers: Mapping[str, Worker],
    wanted: Callable[[InterviewSession], bool],
    holder: str,
    epoch: int,
) -> bool:
    session = InterviewSession.objects.get(pk=session_id)
    if phase.status == Status.FAILED or not wanted(session):
        return False
    work = Work(session=session, phase=phase, holder=holder, epoch=epoch)
    work.report(phase.key, "")
    _mark(session, phase, Status.RUNNING, started_at=clock.now())
    try:
        patiently(lambda: workers[_kind(phase)](work))
    except (LeaseHeld, StaleEpoch):
        raise
    except (ClusterError, FaultError, PackError) as exc:
        _mark(session, phase, Status.FAILED, error=str(exc), finished_at=clock.now())
        return False
    _mark(session, phase, Status.DONE, error="", finished_at=clock.now())
    return True


@transaction.atomic
def _mark(session: InterviewSession, phase: PreparationPhase, status: Status, **fields: object) -> None:
    PreparationPhase.objects.filter(pk=phase.pk).update(status=status, **fields)
    payload = {"key": phase.key, "title": phase.title, "status": str(status)}
    if fields.get("error"):
        payload["error"] = str(fields["error"])
    events.append(session, "phase.changed", payload=payload)


def _kind(phase: PreparationPhase) -> str:
    return phase.key.partition(":")[0]
