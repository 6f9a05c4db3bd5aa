"""Signs of states: a shape, a word and a hue, the same on every page.

A broken pod is often right here. So "active" is amber (as designed) and only what is our problem is red.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from faults.models import FaultRun
from sessions.models import CheckState, InterviewSession, PreparationPhase


@dataclass(frozen=True, slots=True)
class Chip:
    """One state as people see it. ``shape`` names an icon, ``hue`` a colour role."""

    shape: str
    word: str
    hue: str


SESSION: Final = {
    InterviewSession.State.DRAFT: Chip("hollow", "Draft", "grey"),
    InterviewSession.State.PREPARING: Chip("half", "Preparing", "blue"),
    InterviewSession.State.READY: Chip("tick", "Ready", "green"),
    InterviewSession.State.LIVE: Chip("dot", "Live", "blue"),
    InterviewSession.State.PAUSED: Chip("pause", "Paused", "violet"),
    InterviewSession.State.ENDED: Chip("square", "Ended", "grey"),
    InterviewSession.State.SCORED: Chip("tick", "Scored", "green"),
}
PHASE: Final = {
    PreparationPhase.Status.QUEUED: Chip("hollow", "Queued", "grey"),
    PreparationPhase.Status.RUNNING: Chip("half", "Working", "blue"),
    PreparationPhase.Status.WAITING: Chip("ring", "Waiting", "amber"),
    PreparationPhase.Status.DONE: Chip("tick", "Done", "green"),
    PreparationPhase.Status.FAILED: Chip("octagon", "Needs you", "red"),
}
RUN: Final = {
    FaultRun.Status.PLANNED: Chip("hollow", "Queued", "grey"),
    FaultRun.Status.INJECTING: Chip("half", "Injecting", "blue"),
    FaultRun.Status.ACTIVE: Chip("triangle", "Active", "amber"),
    FaultRun.Status.RESOLVED: Chip("tick", "Resolved", "green"),
    FaultRun.Status.REVERTING: Chip("half", "Reverting", "blue"),
    FaultRun.Status.REVERTED: Chip("tick", "Reverted", "grey"),
    FaultRun.Status.FAILED: Chip("octagon", "Needs you", "red"),
    FaultRun.Status.QUARANTINED: Chip("octagon", "Needs you", "red"),
}
# The browser tab tells the state, too: which icon beside which word.
ICONS: Final = {
    "draft": "favicon.svg",
    "preparing": "favicon-live.svg",
    "ready": "favicon-good.svg",
    "live": "favicon-live.svg",
    "paused": "favicon-paused.svg",
    "ended": "favicon-over.svg",
    "scored": "favicon-good.svg",
    "needs you": "favicon-alert.svg",
    "lobby": "favicon-paused.svg",
    "over": "favicon-over.svg",
}
NOT_RUN: Final = Chip("hollow", "Not run", "grey")
ERROR: Final = Chip("octagon", "Check error", "red")
UNTRACED: Final = "Not traceable to the candidate."
HIDDEN: Final = Chip("dashed", "Not shown", "grey")
SPOKEN: Final = Chip("speech", "Spoken about", "grey")
OPEN_TASK: Final = Chip("dot", "Task", "blue")
SKIPPED: Final = Chip("dashed", "Skipped", "grey")
NOT_BEGUN: Final = Chip("hollow", "Begins with its part", "grey")
REGRESSED: Final = Chip("back", "Regressed", "orange")


def tab(session: InterviewSession, *, needs_you: bool = False) -> dict[str, str]:
    """Return title and icon of the browser tab that shows a session."""
    word = (
        PHASE[PreparationPhase.Status.FAILED].word
        if needs_you
        else SESSION[InterviewSession.State(session.state)].word
    )
    return {
        "tab_title": f"{word}: {session.candidate_name}",
        "tab_icon": ICONS["needs you" if needs_you else session.state],
    }


def check_chip(state: CheckState | None, hold_s: float, now: datetime, *, was_fixed: bool) -> Chip:
    """Return how a check is shown: four verdicts, whether a pass still has to hold, and whether a fix was undone."""
    if state is None or state.verdict == CheckState.Verdict.NOT_RUN:
        return NOT_RUN
    if state.verdict == CheckState.Verdict.ERROR:
        return ERROR
    if state.verdict == CheckState.Verdict.FAIL:
        return REGRESSED if was_fixed and state.failed_at else Chip("triangle", "Fail", "amber")
    if state.held_at or not hold_s:
        return Chip("tick", "Pass", "green")
    return Chip("ring", f"Holding {held_seconds(state, hold_s, now)}/{hold_s:.0f} s", "teal")


def guard_chip(state: CheckState | None) -> Chip:
    """Return how a guard is shown; a guard that failed once stays marked, since that is what it is for."""
    if state is None or state.verdict == CheckState.Verdict.NOT_RUN:
        return NOT_RUN
    if state.verdict == CheckState.Verdict.ERROR:
        return ERROR
    if state.verdict == CheckState.Verdict.FAIL and state.failed_at:
        return Chip("back", "Fail: broken", "orange")
    if state.broken_at:
        return Chip("back", "Pass, was broken", "orange")
    failing = state.verdict == CheckState.Verdict.FAIL
    return Chip("ring", "Fails, not counted yet", "grey") if failing else Chip("tick", "Pass", "green")


def cause_in_words(state: CheckState | None) -> str:
    """Return what changed before a failure that counts, and by whom; empty where nothing failed."""
    if state is None or not (state.failed_at or state.broken_at):
        return ""
    if not state.guard and not state.change:
        return ""  # most checks fail from the start: that is the fault
    if not state.change:
        return f"No change is known that explains it. {UNTRACED}"
    told = f"{state.change} (by {state.changed_by})"
    return told if state.traceable else f"{told}. {UNTRACED}"


def held_seconds(state: CheckState, hold_s: float, now: datetime) -> int:
    """Return for how many whole seconds a check has passed, at most ``hold_s``."""
    since = state.passing_since or now
    return int(min(max((now - since).total_seconds(), 0.0), hold_s))
