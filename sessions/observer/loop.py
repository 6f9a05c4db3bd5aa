"""The observer's main loop: holds the lease, follows the sessions, and keeps their panels drawn."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from django.db import OperationalError, close_old_connections
from django.db.models import Q, QuerySet

from faults import leases
from faults import selectors as fault_selectors
from faults.errors import ClusterError, FaultError
from faults.models import Cluster
from faults.packs import PackError
from sessions import access_enforcer, clock, nudges, presence
from sessions.live import LiveState
from sessions.models import InterviewSession, PreparationPhase, SessionEvent, StagedPart
from sessions.observer.audience import AudienceWatch
from sessions.observer.cluster_sessions import ClusterSessions
from sessions.observer.publishing import Publisher
from sessions.observer.screens import EVERY_PANEL, Screens
from sessions.observer.session_watch import SessionWatch
from sessions.observer.sweeper import Sweeper
from sessions.presence import NOBODY

log = logging.getLogger(__name__)
State = InterviewSession.State
LEASE = "observer"
LEASE_S = 6.0
RENEW = timedelta(seconds=2)
RENEW_IDLE = timedelta(seconds=3)  # each write makes every idle loop on this machine look at the database again
POLL = timedelta(seconds=1)  # changes are told of; this finds what got lost
NEWS, NEWS_DUTY = timedelta(seconds=0.1), "news"  # ten that are prepared at once tell of fifty changes a second
FOLLOW = timedelta(seconds=0.5)
FOLLOW_IDLE = timedelta(seconds=4)  # while there is no session with a cluster, and none is being prepared
MAX_WAIT = timedelta(seconds=5)
"""From a session's readiness until it is followed, where nobody is at its pages and others are being prepared: to
follow one takes a fifth of the time that it takes to prepare one."""
MIN_PAUSE_S = 0.02
STOP_S = 1.0
REDRAW = timedelta(seconds=30)  # a safety net: what no event tells of shows at the latest now
REOPENED = 50  # events may become visible out of order where several processes commit
IN_PROGRESS_PANELS = ("phases", "stages")
PHASE_OVER_PANELS = (*IN_PROGRESS_PANELS, "header", "run", "outcome", "notices")


class Observer:
    """Runs until ``stop`` is set. Only the holder of the lease does anything; the others stand by."""

    def __init__(self, stop: threading.Event, now: Callable[[], datetime] = clock.now, holder: str = "") -> None:
        self.holder = holder or f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._stop = stop
        self._now = now
        self._epoch: int | None = None
        self._due: dict[str, datetime] = {}
        self._watches: dict[int, SessionWatch] = {}
        self._clusters: dict[tuple[int, str], ClusterSessions] = {}
        self._ready_since: dict[int, datetime] = {}
        self._seen: set[int] = set()
        self._is_busy = True
        self._progress: dict[int, list[object]] = {}
        self._wake = threading.Event()
        self._news = threading.Event()
        self._nudges = nudges.Listener(self._hear)
        self._publisher = Publisher()
        self.screens = Screens(self._publisher, now, self._live_state)
        self._painter = threading.Thread(target=self.screens.run, name="screens", daemon=True)
        self._audience = AudienceWatch(self.screens.mark)
        self._sweeper: Sweeper | None = None

    def run(self) -> None:
        """Work until told to stop; give the lease back so that another takes over at once."""
        enforcer = access_enforcer.stand_by()  # with the lease or without
        self._nudges.start()
        self._painter.start()
        try:
            while not self._stop.is_set():
                self._tick_safely()
                self._wake.wait(self._pause_s())
                self._wake.clear()
        finally:
            enforcer.close()
            self._nudges.close()
            self.screens.close()
            self._stand_down()
            self._painter.join(STOP_S)
            if self._epoch is not None:
                leases.release(LEASE, self.holder, self._epoch)

    @property
    def is_active(self) -> bool:
        """Whether this observer holds the lease."""
        return self._epoch is not None

    def tick(self) -> None:
        """Do what is due now: lease, sessions, events of the time line, panels."""
        now = self._now()
        if self._is_due("lease", RENEW if self._is_busy else RENEW_IDLE, now):
            self._keep_lease(now)
        if self._epoch is None:
            return
        if self._is_due("sign of life", RENEW, now):
            self._publisher.sign_of_life()
        if self._sweeper is None or not self._sweeper.is_alive:
            self._sweeper = Sweeper(self._now)
            self._sweeper.start()
        told = self._news.is_set() and self._is_due(NEWS_DUTY, NEWS, now)
        if told:
            self._news.clear()
        # Each step of a preparation is told of: what is followed already is looked at no more often for it.
        if self._is_due("follow", FOLLOW if self._is_busy else FOLLOW_IDLE, now) or (told and not self._is_busy):
            self._follow()
            self._audience.look(now)
        if self._is_due("poll", POLL if self._is_busy else FOLLOW_IDLE, now) or told:
            self._poll_events()
        if self._is_due("redraw", REDRAW, now):
            self._redraw()

    def wake(self) -> None:
        """End the pause of the main loop, as to let it see that it must stop; safe from a signal's handler."""
        self._wake.set()

    def _hear(self) -> None:
        """Take a word that some session has changed."""
        self._news.set()
        self._wake.set()

    def _pause_s(self) -> float:
        """Return the seconds until the next duty is due."""
        now = self._now()
        due = [at for duty, at in self._due.items() if duty != NEWS_DUTY or self._news.is_set()]
        due = due if self.is_active else [self._due.get("lease", now)]
        pause = min(((each - now).total_seconds() for each in due), default=0.0)
        return min(max(pause, MIN_PAUSE_S), RENEW.total_seconds())

    def _redraw(self) -> None:
        for pk in self._watches:
            self.screens.mark(pk)

    def _tick_safely(self) -> None:
        """A database that is locked or away costs a turn; the lease decides whether this one may go on."""
        try:
            self.tick()
        except OperationalError as exc:
            log.warning("The database did not answer and is tried again: %s", exc)
            close_old_connections()

    def _is_due(self, duty: str, pause: timedelta, now: datetime) -> bool:
        if timedelta() < self._due.get(duty, now) - now <= pause:  # farther off: the clock was set back
            return False
        self._due[duty] = now + pause
        return True

    def _keep_lease(self, now: datetime) -> None:
        if self._epoch is not None:
            if leases.renew(LEASE, self.holder, self._epoch, LEASE_S, now):
                return
            log.warning("Another observer took over; this one stands by")
            self._stand_down()
            self._epoch = None
        self._epoch = leases.acquire(LEASE, self.holder, LEASE_S, now)
        if self._epoch is not None:
            self._take_over()

    def _take_over(self) -> None:
        log.info("This observer is active")
        newest = SessionEvent.objects.order_by("-pk").values_list("pk", flat=True)[:REOPENED]
        self._seen = set(newest)
        for pk in _open_sessions().values_list("pk", flat=True):
            self.screens.mark(pk)

    def _stand_down(self) -> None:
        if self._sweeper is not None:
            self._sweeper.close()
            self._sweeper = None
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()
        self._watches.clear()

    def _follow(self) -> None:
        """Begin to watch sessions that got a cluster, and let go of those whose cluster is gone."""
        wanted = {session.pk: session for session in _with_cluster().only("uuid", "state")}
        for pk in [pk for pk in self._watches if pk not in wanted or self._must_be_renewed(pk)]:
            self._let_go(pk)
            if pk not in wanted:
                self.screens.forget(pk)
        in_progress = dict(_in_progress().values_list("pk", "state"))
        fresh = [wanted[pk] for pk in wanted.keys() - self._watches.keys()]
        waiting = self._find_waiting(fresh) if State.PREPARING in in_progress.values() else {}
        starting = [session.pk for session in fresh if session.pk not in waiting]
        for session in _whole(starting) if starting else ():
            self._begin(session)
        self._ready_since = waiting
        self._mark_progress(in_progress.keys())
        self._is_busy = bool(in_progress or self._watches or wanted)

    def _find_waiting(self, sessions: Collection[InterviewSession]) -> dict[int, datetime]:
        """Return since when sessions are ready that need not be followed yet: their clusters' time is others'."""
        now = self._now()
        since = {each.pk: self._ready_since.get(each.pk, now) for each in sessions if each.state == State.READY}
        early = {pk: at for pk, at in since.items() if timedelta() <= now - at < MAX_WAIT}
        there = presence.of_many([str(each.uuid) for each in sessions], now) or {}
        return {
            each.pk: early[each.pk] for each in sessions if each.pk in early and there.get(str(each.uuid)) == NOBODY
        }

    def _mark_progress(self, sessions: Collection[int]) -> None:
        """Draw phases that have changed or count down: progress is written without an event.

        Of ten sessions that are prepared at once, most wait for a lane, and look the same all the while.
        """
        rows = PreparationPhase.objects.filter(session__in=sessions) if sessions else PreparationPhase.objects.none()
        progress: dict[int, list[object]] = {pk: [] for pk in sessions}
        counting = set()
        for pk, *row in rows.order_by("pk").values_list("session_id", "status", "detail", "error", "next_try_at"):
            progress[pk].append(row)
            if row[0] == PreparationPhase.Status.WAITING:
                counting.add(pk)
        for pk in sessions:
            if pk in counting or progress[pk] != self._progress.get(pk):
                self.screens.mark(pk, IN_PROGRESS_PANELS)
        self._progress = progress

    def _begin(self, session: InterviewSession) -> None:
        assert session.cluster is not None
        key = (session.cluster.pk, session.cluster.kubeconfig)
        try:
            cluster = self._clusters.get(key) or self._cluster_of(session.cluster)
            self._watches[session.pk] = cluster.begin(session, self.screens.mark)
        except (ClusterError, FaultError, PackError) as exc:
            log.warning("The cluster of session %s cannot be watched yet: %s", session.uuid, exc)
            return
        if key not in self._clusters:
            self._clusters[key] = cluster
            cluster.start()

    def _cluster_of(self, cluster: Cluster) -> ClusterSessions:
        connect = partial(fault_selectors.prometheus_for, cluster)
        return ClusterSessions(cluster.name, fault_selectors.kube_for(cluster), connect, self._now)

    def _must_be_renewed(self, session_id: int) -> bool:
        cluster = next(each for each in self._clusters.values() if each.follows(session_id))
        return self._watches[session_id].must_be_renewed or not cluster.is_alive

    def _let_go(self, session_id: int) -> None:
        """Stop following a session, and watching clusters that have none."""
        self._watches.pop(session_id, None)
        for key, cluster in list(self._clusters.items()):
            if cluster.end(session_id):
                del self._clusters[key]
                cluster.close()

    def _poll_events(self) -> None:
        """Whatever changed in a session wrote an event: draw what it may show on again, mostly all."""
        rows = SessionEvent.objects.filter(pk__gt=min(self._seen, default=0)).exclude(pk__in=self._seen)
        fresh = rows.order_by("pk").only("session_id", "kind", "payload")
        for event in fresh:
            self.screens.mark(event.session_id, _panels_of(event))
        self._seen = set(sorted(self._seen | {event.pk for event in fresh})[-REOPENED:])

    def _live_state(self, session: InterviewSession, names: Collection[str]) -> LiveState | None:
        watch = self._watches.get(session.pk)
        return watch.live_state(names) if watch else None


def _panels_of(event: SessionEvent) -> Collection[str]:
    """Return the panels that an event may show on: mostly all."""
    if event.kind != "phase.changed":
        return EVERY_PANEL
    has_begun = event.payload.get("status") == PreparationPhase.Status.RUNNING
    return IN_PROGRESS_PANELS if has_begun else PHASE_OVER_PANELS


def _open_sessions() -> QuerySet[InterviewSession]:
    return InterviewSession.objects.filter(released_at__isnull=True).exclude(state=State.DRAFT)


def _with_cluster() -> QuerySet[InterviewSession]:
    """Return the sessions whose cluster some page shows.

    While one is prepared, nobody sees its cluster; to follow it would take a third of the time from all that are.
    """
    sessions = _open_sessions().exclude(state=State.PREPARING)
    return sessions.filter(cluster__isnull=False, cluster__released_at__isnull=True).order_by()


def _whole(pks: Collection[int]) -> QuerySet[InterviewSession]:
    """Return those of some sessions that are still to be followed, with what only the beginning needs of them."""
    sessions = _with_cluster().filter(pk__in=pks).select_related("cluster", "environment")
    return sessions.defer("environment__fingerprint_before")


def _in_progress() -> QuerySet[InterviewSession]:
    under_way = StagedPart.objects.filter(asked_at__isnull=False, began_at=None, skipped_at=None)
    is_changing = Q(state=State.PREPARING) | Q(release_asked_at__isnull=False) | Q(pk__in=under_way.values("session"))
    return _open_sessions().filter(is_changing).order_by()
