"""The time line as lanes: what happened when, in session time."""

from __future__ import annotations

from dataclasses import dataclass

from faults.plain_text import plain_line
from sessions.models import SessionEvent
from sessions.panels.subject import Context, Subject, clock_of

LANES = ("Session", "Candidate", "Checks", "Hints", "Questions", "Notes")
LANE_HEIGHT = 15
MOST_EVENTS = 500
LONGEST_DETAIL = 300  # each stands in the frame twice
_BY_PREFIX = {
    "candidate": "Candidate",
    "access": "Candidate",
    "kubeconfig": "Candidate",
    "link": "Candidate",
    "phase": "",  # the stepper tells it better
    "check": "Checks",
    "guard": "Checks",
    "scenario": "Checks",
    "hint": "Hints",
    "question": "Questions",
    "note": "Notes",
    "rating": "",  # what somebody rates is nobody else's business until they submit
    "assessment": "",
}
_HUES = {
    "Session": "grey",
    "Candidate": "blue",
    "Checks": "green",
    "Hints": "violet",
    "Questions": "teal",
    "Notes": "grey",
}
_MIRRORED = ("Candidate", "Checks")
_AMOUNTS = ("session.extended", "session.credited", "session.quiet_began")
_VERDICTS = {"pass": "passes", "fail": "fails", "error": "cannot be checked", "not_run": "does not run"}
_WORDS = {
    "session.created": "Session created",
    "session.preparing": "Preparation began",
    "session.ready": "Every symptom confirmed",
    "session.started": "Started",
    "session.paused": "Paused",
    "session.resumed": "Resumed",
    "session.extended": "Extended",
    "session.credited": "Time credited",
    "cluster.restarted": "Cluster started again",
    "outage.began": "Environment does not answer",
    "outage.ended": "Environment answers again",
    "session.quiet_began": "Quiet time began",
    "session.quiet_ended": "Quiet time ended",
    "session.ended": "Ended",
    "session.called_off": "Called off",
    "session.reopened": "Reopened",
    "check.changed": "Check",
    "check.held": "Check held",
    "guard.changed": "Guard",
    "scenario.fixed": "Every check passes",
    "scenario.held": "Fixed for good",
    "scenario.regressed": "Fix undone",
    "session.scored": "Scored",
    "session.released": "Cluster released",
    "release.asked": "Release asked for",
    "preparation.retried": "Preparation tried again",
    "link.issued": "Join link made",
    "candidate.joined": "Candidate joined",
    "candidate.connected": "First kubectl request",
    "kubeconfig.issued": "Kubeconfig handed out",
    "access.revoked": "Candidate's access ended",
    "access.restored": "Candidate's access restored",
    "hint.released": "Hint released",
    "question.asked": "Question asked",
    "question.noted": "Answer noted",
    "note.added": "Note taken",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One event on its lane. ``x`` is a percentage of the width, ``y`` pixels from the top."""

    x: str
    y: int
    hue: str
    words: str
    lane: str
    event: SessionEvent


def timeline(subject: Subject) -> Context:
    """Return the marks of each lane, the scale, and a line that says the same in words."""
    times = clock_of(subject.session, subject.now)
    span = max(times["budget_ms"], times["elapsed_ms"], 1)
    found = list(SessionEvent.objects.filter(session=subject.session).order_by("-seq")[:MOST_EVENTS])
    hidden = _quiet_seq(found) if subject.session.is_quiet(subject.now) else None
    marks = [mark for event in reversed(found) if (mark := _mark(event, span)) and not _is_hidden(mark, hidden)]
    return {
        "lanes": LANES,
        "tracks": [index * LANE_HEIGHT + LANE_HEIGHT // 2 for index in range(len(LANES))],
        "height": len(LANES) * LANE_HEIGHT,
        "marks": marks,
        "newest": list(reversed(marks)),
        "now_x": f"{100 * times['elapsed_ms'] / span:.2f}%",
        "ticks": [(f"{quarter * 25}%", span * quarter // 4) for quarter in range(1, 4)],
        **times,
    }


def words_for(event: SessionEvent) -> str:
    """Return what happened, in a sentence short enough for a mark."""
    base = _WORDS.get(event.kind) or event.kind.replace(".", ": ").replace("_", " ").capitalize()
    detail = next(
        (str(event.payload[key]) for key in ("title", "text", "finding", "reason") if event.payload.get(key)), ""
    )
    verdict = _VERDICTS.get(str(event.payload.get("verdict", "")), "")
    detail = plain_line(detail, LONGEST_DETAIL)
    return ": ".join(part for part in (base, _amount(event), detail, verdict) if part)


def _amount(event: SessionEvent) -> str:
    """Return the minutes that an entry of the clock is about."""
    if event.kind not in _AMOUNTS:
        return ""
    minutes = event.payload.get("minutes") or event.payload.get("seconds", 0) / 60
    return f"{minutes:.3g} min"


def _quiet_seq(newest_first: list[SessionEvent]) -> int | None:
    """Return the number of the event with which the present quiet time began."""
    return next((event.seq for event in newest_first if event.kind == "session.quiet_began"), None)


def _is_hidden(mark: Mark, quiet_since: int | None) -> bool:
    """Whether a mark tells what the candidate did while nobody was to look."""
    return quiet_since is not None and mark.lane in _MIRRORED and mark.event.seq > quiet_since


def _mark(event: SessionEvent, span: int) -> Mark | None:
    lane = _BY_PREFIX.get(event.kind.partition(".")[0], "Session")
    if not lane:
        return None
    y = LANES.index(lane) * LANE_HEIGHT + LANE_HEIGHT // 2
    undone = event.payload.get("verdict") == "fail" or event.kind == "scenario.regressed"
    hue = "orange" if undone else _HUES[lane]
    return Mark(f"{100 * event.session_ms / span:.2f}%", y, hue, words_for(event), lane, event)
