"""Notices who opens and closes a session's pages, so that the candidate is told who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from sessions import presence
from sessions.models import InterviewSession
from sessions.presence import Presence

PANELS = ("watchers", "link")
_STATES = InterviewSession.State
WATCHED = (_STATES.PREPARING, _STATES.READY, _STATES.LIVE, _STATES.PAUSED)


class AudienceWatch:
    """Asks for both sides' panels to be drawn again when somebody has come or gone."""

    def __init__(self, mark: Callable[[int, Iterable[str]], None]) -> None:
        self._mark = mark
        self._known: dict[str, Presence] = {}

    def look(self, now: datetime) -> None:
        """Compare with the last look; where Redis does not answer, nothing has changed."""
        rows = InterviewSession.objects.filter(state__in=WATCHED).values_list("pk", "uuid")
        keys = {str(uuid): pk for pk, uuid in rows}
        found = presence.of_many(keys, now)
        if found is None:
            return
        for uuid in [uuid for uuid in keys if found[uuid] != self._known.get(uuid)]:
            self._mark(keys[uuid], PANELS)
        self._known = found
