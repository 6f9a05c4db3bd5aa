"""The loop that ends a candidate's access within two seconds of the end, whatever else hangs.

It runs in the web process, which hears of an end first, and in every observer, active or standing by. It asks the
database for decisions and the clusters for deeds, and nothing else: no Redis, no queue, no lease, no panel. A cut
acts before it is written down, so that neither a full disk nor a locked database delays it, and each session has a
thread of its own, so that a cluster that hangs delays nobody else's. Doing it twice does no harm.

What was settled is looked at again for as long as the cluster lives: a worker that was frozen while it restored the
access of a reopened interview may wake up after the next end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic

from django.db import DatabaseError, close_old_connections, connection

from faults.errors import ClusterError, FaultError, Unauthorized
from faults.idleness import database_version
from faults.services import CandidateGrants
from sessions import end_requests, services
from sessions.disk_space import DiskWatch
from sessions.end_requests import EndRequest
from sessions.services import AccessOrder

log = logging.getLogger(__name__)
POLL_S = 0.5
RETRY_S = 0.2
VERIFY_S = 2.0  # between two looks at what was settled a short while ago
VERIFY_LATER_S = 15.0
FRESH_S = 30.0
DISK_S = 10.0
MAX_ACTIVE = 128
MAX_SLOW = 64  # of these may be sessions whose last attempt failed: a hung cluster leaves room for the others


class AccessEnforcer:
    """Watches decisions and carries them out. ``start`` runs it in a thread; ``look`` is one turn of it."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)
        self._active: dict[tuple[int, bool], threading.Thread] = {}  # by session, and whether to close
        self._failed: set[int] = set()
        self._changed_at: dict[int, tuple[bool, float]] = {}  # (closed, when this process first saw it so)
        self._verified_at: dict[int, float] = {}
        self._grants: dict[int, CandidateGrants] = {}
        self._known: dict[int, int] = {}  # how many scenarios' rights these include
        self._cut: set[EndRequest] = set()
        self._well = True
        self._nothing_at: object = None  # the version of the database in which nothing was to be enforced
        self._disk = DiskWatch()
        self._disk_at = -DISK_S

    def start(self) -> None:
        """Begin to enforce."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop; an attempt under way ends by itself."""
        self._stop.set()
        end_requests.decided.set()
        self._thread.join(POLL_S)

    def look(self) -> None:
        """Start what has to be done now; returns at once."""
        self._active = {key: thread for key, thread in self._active.items() if thread.is_alive()}
        requests = end_requests.pending()
        self._cut.intersection_update(requests)
        for request in requests:
            self._begin(request.session_id, True, partial(self._obey, request))
        orders = self._orders()
        due = [order for order in orders if self._is_due(order)]
        for order in sorted(due, key=lambda order: (order.settled, order.session_id in self._failed)):
            self._begin(order.session_id, order.closed, partial(self._settle, order))

    def wait(self, seconds: float) -> None:
        """Wait for what is under way, at most so many seconds for each."""
        for thread in list(self._active.values()):
            thread.join(seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._look_at_disk()
            end_requests.decided.wait(RETRY_S if self._failed or self._cut else POLL_S)
            end_requests.decided.clear()
        connection.close()

    def _look_at_disk(self) -> None:
        if monotonic() - self._disk_at >= DISK_S:
            self._disk_at = monotonic()
            self._disk.look()

    def _orders(self) -> list[AccessOrder]:
        """Return what the database asks for; nothing while it does not answer, which is told once."""
        try:
            version = database_version()  # before the question: what is committed during it counts as a change
            if version is not None and version == self._nothing_at:
                return []
            orders = services.access_orders()
            self._nothing_at = None if orders else version
            self._remember(orders)
        except DatabaseError as exc:
            if self._well:
                log.warning("The database does not answer, so only ends pressed here are enforced: %s", exc)
            self._well = False
            close_old_connections()
            return []
        self._well = True
        return orders

    def _remember(self, orders: Iterable[AccessOrder]) -> None:
        """Keep at hand what a cut needs, for a moment in which the database cannot be asked."""
        now = monotonic()
        for order in orders:
            before = self._changed_at.get(order.session_id)
            if before is None or before[0] != order.closed:
                self._changed_at[order.session_id] = (order.closed, now)
            if before is not None and before[0] and not order.closed:  # reopened: a late cut may still be under way
                self._verified_at.setdefault(order.session_id, now)
            if order.session_id not in self._grants or order.grants != self._known.get(order.session_id, 0):
                self._keep_grants(order.session_id, order.grants)
        known = {order.session_id for order in orders}
        for gone in self._changed_at.keys() - known:
            for kept in (self._changed_at, self._verified_at, self._grants, self._known):
                kept.pop(gone, None)
            self._failed.discard(gone)

    def _keep_grants(self, session_id: int, number: int = 0) -> None:
        try:
            grants = services.grants_of_session(session_id=session_id)
        except (ClusterError, FaultError) as exc:
            self._note_failure(session_id, exc)
            return
        if grants is not None:
            self._grants[session_id], self._known[session_id] = grants, number

    def _is_due(self, order: AccessOrder) -> bool:
        """Whether to act: on what is not settled, and again on what was settled some seconds ago."""
        if not order.settled:
            return True
        now = monotonic()
        fresh = now - self._changed_at[order.session_id][1] < FRESH_S
        if not order.closed and not (fresh and order.session_id in self._verified_at):
            return False
        pause = VERIFY_S if fresh else VERIFY_LATER_S
        return now - self._verified_at.get(order.session_id, 0.0) >= pause

    def _begin(self, session_id: int, closed: bool, act: Callable[[], None]) -> None:
        """Act in a thread, one for each session and direction: a cut does not wait for a restore that hangs."""
        slow = sum(pk in self._failed for pk, _ in self._active)
        full = len(self._active) >= MAX_ACTIVE or (session_id in self._failed and slow >= MAX_SLOW)
        if (session_id, closed) in self._active or full:
            return
        thread = threading.Thread(
            target=self._safely, args=(session_id, act), name=f"access {session_id}", daemon=True
        )
        self._active[session_id, closed] = thread
        thread.start()

    def _safely(self, session_id: int, act: Callable[[], None]) -> None:
        try:
            act()
        except (ClusterError, FaultError, DatabaseError) as exc:
            self._note_failure(session_id, exc)
        else:
            self._failed.discard(session_id)
        finally:
            connection.close()

    def _note_failure(self, session_id: int, exc: Exception) -> None:
        if session_id not in self._failed:  # told once; the words of a time-out differ from try to try
            log.warning("The access of session %s is not settled yet and is tried again: %s", session_id, exc)
        self._failed.add(session_id)
        if isinstance(exc, Unauthorized):
            self._grants.pop(session_id, None)  # taken anew, with the credentials that are stored by then

    def _settle(self, order: AccessOrder) -> None:
        self._verified_at[order.session_id] = monotonic()
        services.sync_access(session_id=order.session_id, verify=order.settled)

    def _obey(self, request: EndRequest) -> None:
        """Cut first, with what is at hand; then have the end recorded."""
        try:
            if request.session_id not in self._grants:  # begun and ended between two looks
                self._keep_grants(request.session_id)
            grants = self._grants.get(request.session_id)
            if request not in self._cut and grants is not None:
                grants.revoke()
                self._cut.add(request)
        finally:
            services.record_end(request)  # a cluster that cannot be reached is cut by the order that this makes


def stand_by() -> AccessEnforcer:
    """Start an enforcer for this process."""
    end_requests.prepare()
    enforcer = AccessEnforcer()
    enforcer.start()
    return enforcer
