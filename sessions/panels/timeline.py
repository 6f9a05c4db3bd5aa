"""The time line as lanes: what happened when, in session time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User

from faults.plain_text import plain_line
from sessions import events
from sessions.models import InterviewSession, SessionEvent
from sessions.panels.subject import Context, Subject, assessments_of, clock_of

LANES = ("Session", "Candidate", "Checks", "Hints", "Notes")
LANE_HEIGHT = 13
SCALE_HEIGHT = 14
MAX_TICKS = 8
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120)  # minutes between two ticks of the scale
MOST_EVENTS = 500
LONGEST_DETAIL = 300  # each stands in the frame twice
_BY_PREFIX = {
    "candidate": "Candidate",
    "access": "Candidate",
    "kubeconfig": "Candidate",
    "code": "Candidate",
    "link": "Candidate",
    "phase": "",  # the stepper tells it better
    "check": "Checks",
    "guard": "Checks",
    "scenario": "Checks",
    "milestone": "Checks",
    "hint": "Hints",
    "question": "",  # records of questions and ratings are nobody else's business until they are submitted
    "rating": "",
    "note": "Notes",
    "assessment": "",
}
_HUES = {
    "Session": "grey",
    "Candidate": "blue",
    "Checks": "green",
    "Hints": "violet",
    "Notes": "grey",
}
_USER = "user:"
_MIRRORED = ("Candidate", "Checks")
_AMOUNTS = ("session.extended", "session.credited", "session.quiet_began")
_DETAILS = ("title", "text", "finding", "reason")
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
    "outage.began": "Outage began",
    "outage.ended": "Outage ended",
    "session.quiet_began": "Quiet time began",
    "session.quiet_ended": "Quiet time ended",
    "part.asked": "Part asked for",
    "part.began": "Part began",
    "part.retried": "Part tried again",
    "part.skipped": "Part skipped",
    "part.held": "Part waits for the button",
    "milestone.reached": "Milestone reached",
    "milestone.taken_back": "Milestone taken back",
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
    "panic.engaged": "Panic stop: everything is taken back",
    "panic.lifted": "Panic stop lifted",
    "release.asked": "Release asked for",
    "preparation.retried": "Preparation tried again",
    "link.issued": "Join link made",
    "candidate.joined": "Candidate joined",
    "candidate.connected": "First kubectl request",
    "kubeconfig.issued": "Kubeconfig handed out",
    "code.downloaded": "Terraform code downloaded",
    "code.uploaded": "Terraform code uploaded",
    "code.applied": "Terraform applied",
    "access.revoked": "Candidate's access closed",
    "access.restored": "Candidate's access restored",
    "gpu_fault.injected": "Fault injected",
    "gpu_fault.recovered": "Fault over",
    "network_fault.injected": "Fault injected",
    "network_fault.recovered": "Fault over",
    "hint.released": "Hint released",
    "note.added": "Note taken",
}


_OUTCOMES = {"reverted": "everything was taken back", "dropped": "what was left went with it"}


@dataclass(frozen=True, slots=True)
class Mark:
    """One event on its lane. ``x`` is a percentage of the width, ``y`` pixels from the top.

    ``goal`` is the id of what the event tells of, empty where that is nowhere on the page.
    """

    x: str
    y: int
    hue: str
    words: str
    lane: str
    goal: str
    who: str
    event: SessionEvent

    @property
    def key(self) -> str:
        """Return the event's number."""
        return str(self.event.seq)


def timeline(subject: Subject) -> Context:
    """Return the marks of each lane, the scale, and a line that says the same in words."""
    times = clock_of(subject.session, subject.now)
    span = max(times["budget_ms"], times["elapsed_ms"], 1)
    shown = SessionEvent.objects.filter(session=subject.session).exclude(kind=events.PLANNED)
    found = list(shown.order_by("-seq")[:MOST_EVENTS])
    hidden = _quiet_seq(found) if subject.session.is_quiet(subject.now) else None
    names = _names(subject.session, found)
    drawn = [_mark(event, span, names) for event in reversed(found)]
    marks = [mark for mark in drawn if mark and not _is_hidden(mark, hidden)]
    return {
        "lanes": LANES,
        "tracks": [index * LANE_HEIGHT + LANE_HEIGHT // 2 for index in range(len(LANES))],
        "height": len(LANES) * LANE_HEIGHT,
        "full_height": len(LANES) * LANE_HEIGHT + SCALE_HEIGHT,
        "marks": marks,
        "newest": list(reversed(marks)),
        "now_x": f"{100 * times['elapsed_ms'] / span:.2f}%",
        "ticks": _ticks(span),
        **times,
    }


def _ticks(span_ms: int) -> list[tuple[str, str]]:
    """Return the scale: positions and labels in round minutes, at most ``MAX_TICKS``."""
    minutes = span_ms / 60_000
    step = next((step for step in _STEPS if minutes / step <= MAX_TICKS), _STEPS[-1])
    marks = range(step, int(minutes) + 1, step)
    return [("0", "0"), *((f"{100 * mark / minutes:.2f}%", f"{mark} min") for mark in marks if mark < minutes * 0.98)]


def _names(session: InterviewSession, found: list[SessionEvent]) -> dict[str, str]:
    """Return how each actor is called: people by their names."""
    users = {event.actor.removeprefix(_USER) for event in found if event.actor.startswith(_USER)}
    known = {row.interviewer.get_username(): row.interviewer for row in assessments_of(session)}
    others = User.objects.filter(username__in=users - known.keys()) if users - known.keys() else ()
    people = {**known, **{user.get_username(): user for user in others}}
    names = {f"{_USER}{username}": user.get_full_name() or username for username, user in people.items()}
    return {**names, events.SYSTEM: "Faultline", events.CANDIDATE: session.candidate_name}


def words_for(event: SessionEvent) -> str:
    """Return what happened, in a sentence short enough for a mark."""
    base = _WORDS.get(event.kind) or event.kind.replace(".", ": ").replace("_", " ").capitalize()
    detail = next((str(event.payload[key]) for key in _details_of(event) if event.payload.get(key)), "")
    verdict = _VERDICTS.get(str(event.payload.get("verdict", "")), "")
    detail = plain_line(detail, LONGEST_DETAIL)
    return ": ".join(part for part in (base, _amount(event), detail, verdict) if part)


def _details_of(event: SessionEvent) -> tuple[str, ...]:
    """Return the fields that may hold the detail. An outage's reason belongs to its beginning."""
    return () if event.kind == "outage.ended" else _DETAILS


def _amount(event: SessionEvent) -> str:
    """Return the minutes that an entry of the clock is about, an outage's seconds, and how a release ended."""
    if event.kind == "outage.ended":
        return f"after {event.payload['seconds']} s"
    if event.kind == "session.released":
        return _OUTCOMES.get(str(event.payload.get("outcome", "")), "")
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


def _goal(event: SessionEvent) -> str:
    """Return the id of the part of the page that shows what an event tells of."""
    payload, kind = event.payload, event.kind.partition(".")[0]
    if kind == "hint" and "index" in payload:
        return f"hint-{payload['scenario']}-{payload['index']}"
    if kind == "note" and kind in payload:
        return f"note-{payload[kind]}"
    return {"check": "panel-checks", "guard": "panel-checks", "scenario": "panel-checks", "link": "panel-link"}.get(
        kind, "panel-link" if kind == "candidate" else ""
    )


def _mark(event: SessionEvent, span: int, names: Mapping[str, str]) -> Mark | None:
    lane = _BY_PREFIX.get(event.kind.partition(".")[0], "Session")
    if not lane:
        return None
    y = LANES.index(lane) * LANE_HEIGHT + LANE_HEIGHT // 2
    undone = event.payload.get("verdict") == "fail" or event.kind == "scenario.regressed"
    hue = "orange" if undone else _HUES[lane]
    who = names.get(event.actor, event.actor.removeprefix(_USER))
    return Mark(f"{100 * event.session_ms / span:.2f}%", y, hue, words_for(event), lane, _goal(event), who, event)
