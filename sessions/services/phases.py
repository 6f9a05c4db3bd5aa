"""Runs the phases of preparing and of releasing: one after the other, visible, and continued where they stopped.

A phase that cannot go on says so in its row, with the cause and the time of the next try, and gives its lane up;
``housekeeping`` publishes the job again when that time has come. Nothing waits in a worker.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from faults import heartbeat, leases
from faults import services as fault_services
from faults.backoff import next_pause
from faults.errors import ClusterError, FaultError, LeaseHeld, NotYet, StaleEpoch, Unauthorized
from faults.packs import PackError
from faults.tiers import policy_of_tier
from sessions import clock, events
from sessions.errors import NeedsPerson
from sessions.models import InterviewSession, PreparationPhase, SessionScenario

LEASE_SECONDS = 8.0  # kept before every request; a worker that dies is replaced once it is over
HOLD_S = 2.0  # for so long a lane waits for what takes its time; then it takes up something else
SOON = timedelta(seconds=1)
SHOW_S = 0.5
"""Between two lines of progress. The observer looks at them no more often."""
PREPARE, RELEASE = "prepare", "release"
MOVING = ("state", "cluster", "environment", "release_asked_at", "released_at")
"""Changes of a session while it is prepared or released; its clock stands still."""
Status = PreparationPhase.Status
UNDECIDED = (Status.FAILED, Status.WAITING)
Mark = tuple[PreparationPhase, PreparationPhase.Status, Mapping[str, object]]
"""A phase, its new status, and what else of it changes."""


@dataclass
class Work:
    """One phase being worked on by one worker."""

    session: InterviewSession
    phase: PreparationPhase
    holder: str
    until: datetime | None = None  # no later than that it is tried again
    _shown: str = ""

    def report(self, _phase: str, detail: str) -> None:
        """Take the newest line of progress, and keep the lease.

        ``show`` writes it down while the phase goes on for long enough to be read, and the end of the phase does.
        """
        self.phase.detail = detail
        heartbeat.beat()

    def show(self) -> None:
        """Show the newest line of progress."""
        if self.phase.detail != self._shown:
            PreparationPhase.objects.filter(pk=self.phase.pk).update(detail=self.phase.detail)
            self._shown = self.phase.detail

    def scenario(self) -> SessionScenario:
        """Return the scenario that this phase's key names."""
        slug = self.phase.key.partition(":")[2]
        scenarios = self.session.scenarios.select_related("run", "scenario_version__scenario")
        scenarios = scenarios.defer("run__fingerprint_before", "scenario_version__files")  # large, and not needed
        found = scenarios.get(scenario_version__scenario__slug=slug)
        if found.run is not None:
            found.run.scenario_version = found.scenario_version
        return found


Worker = Callable[[Work], None]


def lease_name(session_id: int) -> str:
    """Return the lease that preparing and releasing share: never two jobs in one cluster at a time."""
    return lease_name_of(InterviewSession.objects.only("tier", "cluster_id").get(pk=session_id))


def lease_name_of(session: InterviewSession) -> str:
    """Return the lease of a session that was read, of which id, tier and cluster are needed."""
    own = policy_of_tier(session.tier).may_be_dropped or session.cluster_id is None
    return f"session:{session.pk}" if own else f"cluster:{session.cluster_id}"


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


def ask_again(phases: Iterable[PreparationPhase]) -> bool:
    """Let phases that failed or wait be tried at once; False where there are none."""
    stopped = PreparationPhase.objects.filter(pk__in=[phase.pk for phase in phases], status__in=UNDECIDED)
    return bool(stopped.update(status=Status.QUEUED, error="", next_try_at=None, attempts=0))


def run(session_id: int, workers: Mapping[str, Worker], wanted: Callable[[InterviewSession], bool]) -> bool:
    """Work through the phases that ``workers`` knows by the part of the key before the colon.

    Returns True when all are done; False when another worker is on it, one stopped, or it is no longer wanted. One
    that waits for a person (``NeedsPerson``) lets the others go on.
    """
    holder, done = holder_name(), True
    undone = PreparationPhase.objects.filter(session_id=session_id).exclude(status=Status.DONE)
    try:
        with leases.holding(lease_name(session_id), holder, LEASE_SECONDS, clock.now), _Ended() as ended:
            session = InterviewSession.objects.prefetch_related("clock_entries").get(pk=session_id)
            for phase in [phase for phase in undone if _kind(phase) in workers]:
                session.refresh_from_db(fields=MOVING)
                if not wanted(session):
                    return False
                work = Work(session, phase, holder)
                result = _step(work, workers[_kind(phase)], ended)
                done = done and result is True
                if result is False:
                    return False
    except (LeaseHeld, StaleEpoch):
        return False
    return done


class _Ended:
    """Phases that are done, which is written down with the beginning of the next one, or at the end of the block.

    Between the two lies nothing that could be lost: a phase that is done again changes nothing.
    """

    def __init__(self) -> None:
        self._works: list[Work] = []

    def __enter__(self) -> _Ended:
        return self

    def __exit__(self, *_: object) -> None:
        if self._works:
            self.write()

    def add(self, work: Work) -> None:
        """Take a phase that is done now."""
        work.phase.finished_at = clock.now()
        self._works.append(work)

    def write(self) -> None:
        """Write down that they are done."""
        _mark(self._works[0].session, *self.marks())

    def marks(self) -> list[Mark]:
        """Return what is to be written down."""
        settled = {"error": "", "next_try_at": None, "attempts": 0}
        phases = [work.phase for work in self._works]
        ends = [{"finished_at": phase.finished_at, "detail": phase.detail, **settled} for phase in phases]
        return [(phase, Status.DONE, end) for phase, end in zip(phases, ends, strict=True)]

    def clear(self) -> None:
        """Forget them: it is written, and committed."""
        self._works = []


def _step(work: Work, worker: Worker, ended: _Ended) -> bool | None:
    """Work on one phase. True: done; False: stop here; None: not done, but the others may go on."""
    phase = work.phase
    if phase.status == Status.FAILED and phase.next_try_at is None:
        return False
    if phase.next_try_at is not None and phase.next_try_at > clock.now():
        return None if phase.status == Status.FAILED else False
    _begin(work.session, phase, ended.marks())
    ended.clear()
    phase.detail = ""
    try:
        with heartbeat.beating(work.show, SHOW_S):
            worker(work)
    except StaleEpoch:
        raise
    except (LeaseHeld, NotYet) as exc:
        return _come_back(phase, str(exc))
    except NeedsPerson as exc:
        _postpone(work, Status.FAILED, str(exc))
        return None
    except (ClusterError, FaultError, PackError) as exc:
        if isinstance(exc, ClusterError) and exc.retryable:
            _postpone(work, Status.WAITING, _cause(work.session, exc), getattr(exc, "retry_after", None))
        else:
            failed = {"error": str(exc), "next_try_at": None, "finished_at": clock.now(), "detail": phase.detail}
            _mark(work.session, (phase, Status.FAILED, failed))
        return False
    ended.add(work)
    return True


def _cause(session: InterviewSession, exc: ClusterError) -> str:
    """Return why a phase waits; where a cluster refuses us, what a person can do about it."""
    if isinstance(exc, Unauthorized) and session.cluster is not None and session.cluster.kept:
        return fault_services.credentials_words(session.cluster)
    return str(exc)


@transaction.atomic
def _begin(session: InterviewSession, phase: PreparationPhase, before: Sequence[Mark]) -> None:
    """Show that a phase is worked on; the time line hears of its first try only. ``before`` is written with it."""
    if phase.started_at is None:
        _mark(session, *before, (phase, Status.RUNNING, {"detail": "", "started_at": clock.now()}))
    else:
        _mark(session, *before)
        status = Status.RUNNING if phase.status == Status.QUEUED else phase.status
        PreparationPhase.objects.filter(pk=phase.pk).update(status=status, detail="")


def _come_back(phase: PreparationPhase, detail: str) -> bool:
    """Look again soon: nothing is wrong."""
    values = {"status": Status.RUNNING, "error": "", "detail": detail}
    PreparationPhase.objects.filter(pk=phase.pk).update(next_try_at=clock.now() + SOON, **values)
    return False


def _postpone(work: Work, status: Status, cause: str, retry_after_s: float | None = None) -> None:
    """Write down that a try failed, why, and when the next one is; the time line hears of a change only."""
    now, phase = clock.now(), work.phase
    previous = (phase.next_try_at - phase.tried_at).total_seconds() if phase.next_try_at and phase.tried_at else 0.0
    due = now + timedelta(seconds=next_pause(max(previous, 0.0), retry_after_s))
    due = min(due, work.until) if work.until is not None and work.until > now else due
    values = {"error": cause, "attempts": phase.attempts + 1, "tried_at": now, "next_try_at": due}
    values["detail"] = phase.detail
    if phase.status == status:
        PreparationPhase.objects.filter(pk=phase.pk).update(status=status, **values)
    else:
        _mark(work.session, (phase, status, values))


@transaction.atomic(savepoint=False)
def _mark(session: InterviewSession, *marks: Mark) -> None:
    for phase, status, fields in marks:
        PreparationPhase.objects.filter(pk=phase.pk).update(status=status, **fields)
    events.append_all(session, "phase.changed", [_payload(*mark) for mark in marks])


def _payload(phase: PreparationPhase, status: Status, fields: Mapping[str, object]) -> dict[str, str]:
    error = {"error": str(fields["error"])} if fields.get("error") else {}
    return {"key": phase.key, "title": phase.title, "status": str(status), **error}


def _kind(phase: PreparationPhase) -> str:
    return phase.key.partition(":")[0]
