"""Drawing of dirty panels: once for each role, sent as the rows that changed.

The first change is drawn at once; what follows within ``MIN_PAUSE_S`` goes into one frame with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection

from faults.packs import PackError
from sessions import panels, presence
from sessions.frames import Frame
from sessions.live import LiveState
from sessions.models import InterviewSession
from sessions.observer.publishing import Publisher
from sessions.panels.drawing import Drawing, change
from sessions.presence import NOBODY

log = logging.getLogger(__name__)
ROLES = (panels.INTERVIEWER, panels.CANDIDATE)
EVERY_PANEL = frozenset(name for role in ROLES for name in panels.names_for(role))
CLUSTER_PANELS = panels.observed()
MIN_PAUSE_S = 0.1  # at most ten frames a second of any screen
MIN_PREPARING_FACTOR, MAX_PREPARING_FACTOR = 5, 15
"""On the pause of a session that is prepared: all its panels change ten times a second, and nobody acts on them yet.
Of many that are prepared at once, about ten a second are drawn in all."""
BEFORE_START = (InterviewSession.State.PREPARING, InterviewSession.State.READY)
"""While nobody is at the pages of such a session, nothing of it is drawn: ten may be prepared for a whole day."""
SESSION_KEPT_S = 1.0
"""Panels of the cluster alone read of the session only whether it is quiet time. A change of that is told of, and
found within a second at the latest; reading the session costs more than drawing a panel."""
RETRY_S = 1.0
MAX_KNOWN = 200  # sessions whose panels are remembered; the others' go whole when they change

LiveStateOf = Callable[[InterviewSession, Collection[str]], LiveState | None]


@dataclass(slots=True)
class _Screen:
    """One role's view of one session: the number of the newest frame, and what it showed."""

    seq: int
    drawings: dict[str, Drawing] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """A session as it was last read, its screens by role, and when it may be drawn again."""

    session: InterviewSession | None = None
    read_at: float = 0.0
    due_at: float = 0.0
    screens: dict[str, _Screen] = field(default_factory=dict)


class Screens:
    """Collects dirty panels from any thread; ``flush`` draws and publishes them from one.

    ``steady`` is a clock that only goes forward; ``pause_s`` the shortest time between two frames of a session.
    """

    def __init__(
        self,
        publisher: Publisher,
        now: Callable[[], datetime],
        live_state: LiveStateOf,
        *,
        steady: Callable[[], float] = time.monotonic,
        pause_s: float = MIN_PAUSE_S,
    ) -> None:
        self._publisher = publisher
        self._now = now
        self._live_state = live_state
        self._steady = steady
        self._pause_s = pause_s
        self._news = threading.Condition()
        self._dirty: dict[int, set[str]] = {}
        self._known: dict[int, _Known] = {}
        self._stopped = False

    def mark(self, session_id: int, names: Iterable[str] = EVERY_PANEL) -> None:
        """Ask for panels of a session to be drawn again."""
        wanted = EVERY_PANEL.intersection(names)
        if not wanted:
            return
        with self._news:
            self._dirty.setdefault(session_id, set()).update(wanted)
            self._news.notify()

    def run(self) -> None:
        """Draw whatever is due until ``close`` is called. A database that does not answer costs a turn."""
        try:
            while self._wait():
                try:
                    self.flush()
                except OperationalError as exc:
                    log.warning("The database did not answer, panels wait: %s", exc)
                    connection.close_if_unusable_or_obsolete()
        finally:
            connection.close()

    def close(self) -> None:
        """End ``run``."""
        with self._news:
            self._stopped = True
            self._news.notify()

    def flush(self) -> int:
        """Draw what is due, publish what changed, and return how many frames went out."""
        return sum(self._flush_session(session_id) for session_id in self._take_due())

    def forget(self, session_id: int) -> None:
        """Drop what was remembered of a session that is over."""
        self._known.pop(session_id, None)

    def _wait(self) -> bool:
        """Wait until a session is due; return False once stopped."""
        with self._news:
            while not self._stopped:
                pause = min((self._due_in(session_id) for session_id in self._dirty), default=None)
                if pause is not None and pause <= 0:
                    return True
                self._news.wait(pause)
            return False

    def _due_in(self, session_id: int) -> float:
        known = self._known.get(session_id)
        return known.due_at - self._steady() if known else 0.0

    def _take_due(self) -> list[int]:
        with self._news:
            return [session_id for session_id in self._dirty if self._due_in(session_id) <= 0]

    def _flush_session(self, session_id: int) -> int:
        """Draw one session. Its names are taken only once it was read: a database that is locked loses none."""
        if session_id not in self._known and len(self._known) >= MAX_KNOWN:
            self.forget(min(self._known, key=lambda other: self._known[other].due_at))
        known = self._known.setdefault(session_id, _Known())
        known.due_at = self._steady() + self._pause_s
        is_unseen = self._dirty[session_id] != EVERY_PANEL and self._is_unseen(known)
        session = known.session if is_unseen else self._read(known, session_id)
        if session is not None and session.state == InterviewSession.State.PREPARING:
            known.due_at += self._pause_s * (self._preparing_factor() - 1)
        is_unseen = is_unseen or self._is_unseen(known)
        with self._news:
            names = self._dirty.pop(session_id, set())
        if session is None:
            self._known.pop(session_id, None)
            return 0
        if is_unseen:
            known.screens.clear()  # whoever comes is marked (``AudienceWatch``), and gets everything
            return 0
        live_state = self._live_state(session, names if len(known.screens) == len(ROLES) else EVERY_PANEL)
        return sum(self._flush_screen(known, session, role, names, live_state) for role in ROLES)

    def _is_unseen(self, known: _Known) -> bool:
        """Tell whether the session had not begun when it was read, and nobody is at its pages.

        Whatever changes its state marks every panel. Where Redis does not answer, somebody may be there.
        """
        session = known.session
        if session is None or session.state not in BEFORE_START:
            return False
        return presence.of(str(session.uuid), self._now()) == NOBODY

    def _preparing_factor(self) -> int:
        drawn = [each.session for each in self._known.values() if each.session is not None and each.screens]
        count = sum(session.state == InterviewSession.State.PREPARING for session in drawn)
        return min(max(count, MIN_PREPARING_FACTOR), MAX_PREPARING_FACTOR)

    def _read(self, known: _Known, session_id: int) -> InterviewSession | None:
        """Return the session; read anew unless only its cluster has changed since a moment ago."""
        age = self._steady() - known.read_at
        if known.session is None or age > SESSION_KEPT_S or not self._dirty[session_id] <= CLUSTER_PANELS:
            related = InterviewSession.objects.select_related("owner", "cluster", "environment")
            rows = related.defer("environment__fingerprint_before")
            known.session, known.read_at = rows.filter(pk=session_id).first(), self._steady()
        return known.session

    def _flush_screen(
        self, known: _Known, session: InterviewSession, role: str, names: set[str], live_state: LiveState | None
    ) -> int:
        """Publish a frame of a screen with all that changed; the first one, and one after trouble, brings it all."""
        uuid = str(session.uuid)
        screen = known.screens.get(role)
        if screen is None:
            seq = self._publisher.last_seq(uuid, role)
            if seq is None:
                return self._put_off(known, session.pk, names)
            screen = known.screens[role] = _Screen(seq)
            names = set(EVERY_PANEL)
        drawn = self._draw(session, role, names.intersection(panels.names_for(role)), live_state)
        changes = {name: found for name, new in drawn.items() if (found := change(screen.drawings.get(name), new))}
        if not changes:
            return 0
        return self._send(known, session.pk, uuid, role, screen, {name: drawn[name] for name in changes}, changes)

    def _send(
        self,
        known: _Known,
        session_id: int,
        uuid: str,
        role: str,
        screen: _Screen,
        drawn: dict[str, Drawing],
        changes: dict[str, Any],
    ) -> int:
        whole = {name: drawing.html() for name, drawing in drawn.items()}
        before = self._publisher.publish(uuid, role, Frame(screen.seq + 1, self._now(), whole, changes))
        if before is None:
            known.screens.pop(role)
            return self._put_off(known, session_id, EVERY_PANEL)
        if before != screen.seq:  # Redis has forgotten the rest, or somebody else draws, too: bring all of it
            known.screens.pop(role)
            self.mark(session_id)
            return 1
        screen.seq += 1
        screen.drawings.update(drawn)
        return 1

    def _put_off(self, known: _Known, session_id: int, names: Iterable[str]) -> int:
        known.due_at = self._steady() + (RETRY_S if self._pause_s else 0.0)
        self.mark(session_id, names)
        return 0

    def _draw(
        self, session: InterviewSession, role: str, names: Iterable[str], live_state: LiveState | None
    ) -> dict[str, Drawing]:
        drawn: dict[str, Drawing] = {}
        for name in sorted(names):
            try:
                drawn[name] = panels.draw(session, name, role, live_state)
            except PackError as exc:
                log.error("Panel %s of session %s cannot be drawn: %s", name, session.uuid, exc)
        return drawn
