"""Notes bound to a moment of the interview."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from sessions import clock, events
from sessions.models import InterviewSession, Note
from sessions.services.rows import State, clean_text, locked, require

LONGEST_NOTE = 4000
NOTABLE = (State.READY, State.LIVE, State.PAUSED, State.ENDED, State.SCORED)


@transaction.atomic
def add_note(*, session: InterviewSession, text: str, actor: User) -> Note:
    """Keep a note at the current session time. Raises SessionError naming ``text``.

    The time line learns that a note was taken, not what it says: others read it after their own submission.
    """
    session = locked(session)
    require(session, NOTABLE, "take notes")
    text = clean_text(text, field="text", name="The note", limit=LONGEST_NOTE, required=True)
    now = clock.now()
    note = Note.objects.create(
        session=session, author=actor, at=now, session_ms=clock.elapsed_ms(session, now), text=text
    )
    events.append(session, "note.added", actor=actor, payload={"note": str(note.uuid)}, at=now)
    return note
