"""Which panels need drawing, and drawing them: each (session, panel, role) once, sent only when its HTML changed."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime

from faults.packs import PackError
from sessions import panels
from sessions.live import Frame, LiveState
from sessions.models import InterviewSession
from sessions.observer.publishing import Delivery, Publisher
from sessions.panels.subject import OBSERVED

log = logging.getLogger(__name__)
ROLES = (panels.INTERVIEWER, panels.CANDIDATE)
EVERY_PANEL = frozenset(name for role in ROLES for name in panels.names_for(role))
CLUSTER_PANELS = frozenset(OBSERVED)

Address = tuple[str, str, str]  # session's uuid, role, panel
LiveStateOf = Callable[[InterviewSession], LiveState | None]


class Screens:
    """Collects dirty panels from any thread; ``flush`` draws and publishes them from one."""

    def __init__(self, publisher: Publisher, now: Callable[[], datetime], live_state: LiveStateOf) -> None:
        self._publisher = publisher
        self._now = now
        self._live_state = live_state
        self._lock = threading.Lock()
        self._dirty: dict[int, set[str]] = {}
        self._sent: dict[Address, tuple[int, bytes]] = {}

    def mark(self, session_id: int, names: Iterable[str] = EVERY_PANEL) -> None:
        """Ask for panels of a session to be drawn again."""
        with self._lock:
            self._dirty.setdefault(session_id, set()).update(EVERY_PANEL.intersection(names))

    def flush(self) -> int:
        """Draw what is dirty, publish what changed, and return how many frames went out."""
        with self._lock:
            dirty, self._dirty = self._dirty, {}
        sent = 0
        for session in InterviewSession.objects.filter(pk__in=dirty).select_related(
            "owner", "cluster", "environment"
        ):
            sent += self._flush_session(session, dirty[session.pk])
        return sent

    def forget(self, uuid: str) -> None:
        """Drop what was remembered of a session that is over."""
        for address in [address for address in self._sent if address[0] == uuid]:
            del self._sent[address]

    def _flush_session(self, session: InterviewSession, names: set[str]) -> int:
        live_state = self._live_state(session)
        deliveries: list[Delivery] = []
        for role in ROLES:
            for name in names.intersection(panels.names_for(role)):
                delivery = self._draw(session, name, role, live_state)
                deliveries += [delivery] if delivery else []
        if deliveries and not self._publisher.publish(deliveries):
            for each in deliveries:  # unsure what arrived: draw and number them again
                self._sent.pop((each.uuid, each.role, each.panel), None)
            self.mark(session.pk, names)
            return 0
        return len(deliveries)

    def _draw(self, session: InterviewSession, name: str, role: str, live_state: LiveState | None) -> Delivery | None:
        """Return the panel's next frame, or None where nothing changed or it cannot be drawn now."""
        address = (str(session.uuid), role, name)
        last = self._last(address)
        if last is None:
            self.mark(session.pk, [name])
            return None
        seq = last[0] + 1
        try:
            html = panels.render(session, name, role, live_state, seq=seq)
        except PackError as exc:
            log.error("Panel %s of session %s cannot be drawn: %s", name, session.uuid, exc)
            return None
        digest = hashlib.sha256(html.replace(f'data-seq="{seq}"', "", 1).encode()).digest()
        if digest == last[1]:
            return None
        self._sent[address] = (seq, digest)
        return Delivery(*address, Frame(seq, html, self._now()))

    def _last(self, address: Address) -> tuple[int, bytes] | None:
        """Return number and digest of the newest frame; an observer that takes over goes on counting."""
        if address not in self._sent:
            seq = self._publisher.last_seq(*address)
            if seq is None:
                return None
            self._sent[address] = (seq, b"")
        return self._sent[address]
