"""Panels that tell how the interview goes: header, phases, checks, hints, and the run of show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faults.models import FaultRun
from faults.packs import Check
from sessions import disk_space, part_minutes, subjects
from sessions.models import CheckState, HintRelease, InterviewSession, PreparationPhase, SessionScenario
from sessions.panels import words
from sessions.panels.subject import (
    Context,
    Subject,
    clock_of,
    judged_scenarios_of,
    open_scenarios_of,
    outages_of,
    questions_of,
    released_hints,
    scenarios_of,
    screen_of,
    staged_parts_of,
)
from sessions.selectors import pack_for
from sessions.services.release import WORKERS as RELEASE_PHASES
from sessions.settled import settler

_CANDIDATE_TABS = {"lobby": "Waiting", "live": "Live", "over": "Ended"}


@dataclass(slots=True)
class CheckRow:
    """A check or guard as its panel shows it. ``held`` and ``hold`` are whole seconds."""

    key: str
    title: str
    points: int
    chip: words.Chip
    finding: str
    checked_at: datetime | None
    holding: bool
    held: int
    hold: int
    cause: str = ""
    waits: str = ""

    @property
    def is_calm(self) -> bool:
        """Whether this is a guard that nobody has to look at: it is not broken. What cannot be read, checks tell."""
        return self.is_guard and self.chip.hue in ("green", "grey", "red")

    @property
    def is_guard(self) -> bool:
        """Whether this is a guard."""
        return self.key.startswith("guard:")


@dataclass(frozen=True, slots=True)
class HintRow:
    """A hint of the pack, and its release where it was given."""

    key: str
    index: int
    tier: int
    text: str
    release: HintRelease | None


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """A phase with how it is shown, for how many seconds it ran, and in how many it is tried again."""

    row: PreparationPhase
    chip: words.Chip
    seconds: float | None
    waits_s: int | None = None


def header(subject: Subject) -> Context:
    """Return state, clock and the candidate's connection."""
    session = subject.session
    quiet_until = session.quiet_until if session.is_quiet(subject.now) else None
    times = clock_of(session, subject.now)
    return {
        "screen": screen_of(session),
        "quiet_until": quiet_until,
        "disk_warning": disk_space.warning(),
        **times,
        **_light(session),
        **words.tab(session),
    }


def connection(subject: Subject) -> Context:
    """Return the light beside the candidate's access: closed, or that a first request is on record."""
    session = subject.session
    return {"screen": candidate_screen(session), "closed": _is_closed_for_pause(session), **_light(session)}


def candidate_screen(session: InterviewSession) -> str:
    """Return which screen the candidate sees."""
    states = InterviewSession.State
    if session.state in (states.LIVE, states.PAUSED):
        return "live"
    return "over" if session.state in (states.ENDED, states.SCORED) else "lobby"


def candidate_clock(subject: Subject) -> Context:
    """Return the clock as the candidate sees it."""
    session = subject.session
    return {"screen": candidate_screen(session), **candidate_tab(session), **clock_of(session, subject.now)}


def candidate_tab(session: InterviewSession) -> dict[str, str]:
    """Return title and icon of the candidate's browser tab."""
    screen = candidate_screen(session)
    paused = session.state == InterviewSession.State.PAUSED
    word, icon = ("Paused", "paused") if paused else (_CANDIDATE_TABS[screen], screen)
    return {"tab_title": f"{word}: {session.title}", "tab_icon": words.ICONS[icon]}


def statement(subject: Subject) -> Context:
    """Return the statements and the hints that were released, nothing else; before the start, nothing at all."""
    if candidate_screen(subject.session) != "live":
        return {"parts": []}
    given = released_hints(subject.session)
    parts = [
        {
            "row": row,
            **_headed(pack_for(row).statement, row.scenario_version.title),
            "hints": given[row.pk],
            "namespace": next(iter(row.run.namespaces.values()), "") if row.run else "",
        }
        for row in open_scenarios_of(subject.session)
    ]
    places = {part["namespace"] for part in parts if part["namespace"]} | _home(subject.session)
    return {"parts": parts, "several": len(parts) > 1, "moves": len(places) > 1}


def _headed(text: str, title: str) -> dict[str, str]:
    """Return a statement apart from its heading, which the page numbers where there are several."""
    first, _, rest = text.lstrip().partition("\n")
    return {"title": first[2:].strip(), "text": rest} if first.startswith("# ") else {"title": title, "text": text}


def _home(session: InterviewSession) -> set[str]:
    """Return the namespace that the candidate's access file selects."""
    return set(list(session.environment.namespaces.values())[:1]) if session.environment else set()


def phases(subject: Subject) -> Context:
    """Return the phases of getting ready or of releasing, in order."""
    releasing = subject.session.release_asked_at is not None
    rows = [_phase_row(row, subject.now) for row in subject.session.phases.all() if _is_release(row) == releasing]
    failed = any(row.row.status == PreparationPhase.Status.FAILED for row in rows)
    done = sum(row.row.status == PreparationPhase.Status.DONE for row in rows)
    return {
        "screen": screen_of(subject.session),
        "phases": rows,
        "failed": failed,
        "stopped": failed or any(row.waits_s is not None for row in rows),
        "done": done,
        "total": len(rows),
        **words.tab(subject.session, needs_you=failed),
    }


def checks(subject: Subject) -> Context:
    """Return every scenario's checks and guards with verdict, finding and holding progress."""
    judged = [row for row in judged_scenarios_of(subject.session) if row.is_open and pack_for(row).checks]
    groups = [_check_group(row, subject) for row in judged]
    _say_once([row for group in groups for row in group["rows"]])
    times = [row.checked_at for group in groups for row in group["rows"] if row.checked_at]
    return {
        "groups": groups,
        "checked_at": max(times, default=None),
        "outages": outages_of(subject.session),
        "outage_now": any(outage.ended_at is None for outage in outages_of(subject.session)),
        "passed": sum(group["passed"] for group in groups),
        "total": sum(group["total"] for group in groups),
    }


def hints(subject: Subject) -> Context:
    """Return every hint of every scenario, released or not. For interviewers only."""
    may = subject.session.state in (InterviewSession.State.LIVE, InterviewSession.State.PAUSED)
    given = released_hints(subject.session)
    groups = [_hint_group(row, given[row.pk]) for row in open_scenarios_of(subject.session)]
    return {"groups": groups, "may_release": may}


def run_of_show(subject: Subject) -> Context:
    """Return the parts in order, each with its scenarios, questions and minutes.

    It is drawn once for all interviewers, so it tells nothing of anybody's record of a question.
    """
    scenarios, asked = judged_scenarios_of(subject.session), questions_of(subject.session)
    quiet = subject.session.is_quiet(subject.now)
    planned = [int(part.get("minutes") or 0) for part in subject.session.parts]
    room = part_minutes.room(planned, subject.session.minutes)
    stages = {stage.number: stage for stage in staged_parts_of(subject.session)}
    parts = [
        {
            "number": index,
            "title": part.get("title", "Part"),
            "rated": bool(subjects.part_criteria(part)),
            "minutes": part.get("minutes"),
            "room": room[index],
            "stage": stages.get(index),
            "scenarios": [
                (f"s{row.pk}", row, words.HIDDEN if quiet else scenario_chip(row))
                for row in scenarios
                if row.part == index
            ],
            "questions": [(f"q{row.pk}", row) for row in asked if row.part == index],
        }
        for index, part in enumerate(subject.session.parts)
    ]
    return {"parts": parts}


def scenario_chip(scenario: SessionScenario) -> words.Chip:
    """Return how a scenario is shown: its fault run's state until it is fixed, then fixed and resolved."""
    if not scenario.is_open:
        return _chip_before(scenario)
    if scenario.held_at:
        return words.RUN[FaultRun.Status.RESOLVED]
    if scenario.fixed_at:
        failing = any(state.verdict == CheckState.Verdict.FAIL for state in scenario.check_states.all())
        return words.REGRESSED if failing else words.Chip("ring", "Fixed, holding", "teal")
    if scenario.run is None:
        return words.SPOKEN if pack_for(scenario).is_spoken else words.RUN[FaultRun.Status.PLANNED]
    if scenario.run.status == FaultRun.Status.ACTIVE and not pack_for(scenario).has_fault:
        return words.OPEN_TASK
    return words.RUN[FaultRun.Status(scenario.run.status)]


def _chip_before(scenario: SessionScenario) -> words.Chip:
    """Return how a scenario is shown whose part has not begun: skipped, waiting, or on the way."""
    run, stage = scenario.run, scenario.stage
    if scenario.is_skipped:
        return words.SKIPPED
    if stage is None or stage.asked_at is None:
        return words.NOT_BEGUN
    failed = run is not None and run.status in (FaultRun.Status.FAILED, FaultRun.Status.QUARANTINED)
    return words.RUN[FaultRun.Status.FAILED if failed else FaultRun.Status.INJECTING]


def _is_closed_for_pause(session: InterviewSession) -> bool:
    return session.is_closed() and session.state == InterviewSession.State.PAUSED


def _light(session: InterviewSession) -> Context:
    if _is_closed_for_pause(session):
        return {"lamp": "off", "lamp_text": "Access closed"}
    if session.first_request_at:
        return {"lamp": "on", "lamp_text": "Connected"}
    if session.joined_at:
        return {"lamp": "wait", "lamp_text": "Joined"}
    return {"lamp": "off", "lamp_text": "Not joined"}


def _phase_row(row: PreparationPhase, now: datetime) -> PhaseRow:
    spent = row.finished_at - row.started_at if row.started_at and row.finished_at else None
    waits = row.status == PreparationPhase.Status.WAITING and row.next_try_at is not None
    waits_s = math.ceil(max(0.0, (row.next_try_at - now).total_seconds())) if waits and row.next_try_at else None
    chip = words.PHASE[PreparationPhase.Status(row.status)]
    return PhaseRow(row, chip, spent.total_seconds() if spent else None, waits_s)


def _is_release(row: PreparationPhase) -> bool:
    return row.key.partition(":")[0] in RELEASE_PHASES


def _check_group(scenario: SessionScenario, subject: Subject) -> dict[str, Any]:
    pack, now = pack_for(scenario), subject.now
    states = {state.key: state for state in scenario.check_states.all()}
    rows = [_check_row(check, states.get(check.key), scenario, now) for check in pack.checks]
    guards = [_guard_row(guard, states.get(guard.key)) for guard in pack.guards]
    passed = sum(row.chip.hue in ("green", "teal") for row in rows)
    return {
        "scenario": scenario,
        "title": pack.title,
        "settler": settler(scenario, pack, scenarios_of(subject.session)),
        "name": f"checks-{scenario.pk}",
        "rows": [*(row for row in guards if not row.is_calm), *rows],
        "guards": [row for row in guards if row.is_calm],
        "guards_name": f"guards-{scenario.pk}",
        "guards_total": len(guards),
        "guards_held": sum(row.chip.hue == "green" for row in guards),
        "guards_unread": sum(row.chip == words.ERROR for row in guards),
        "passed": passed,
        "total": len(rows),
    }


def _check_row(check: Check, state: CheckState | None, scenario: SessionScenario, now: datetime) -> CheckRow:
    chip = words.check_chip(state, check.hold, now, was_fixed=scenario.fixed_at is not None)
    holding = chip.shape == "ring"
    held = words.held_seconds(state, check.hold, now) if state and holding else 0
    waits = state.finding if state and state.verdict == CheckState.Verdict.NOT_RUN else ""
    return CheckRow(
        key=f"{scenario.pk}:{check.key}",
        title=check.title,
        points=check.points,
        chip=chip,
        finding=state.finding if state and not waits else "",
        checked_at=state.checked_at if state else None,
        holding=holding,
        held=held,
        hold=round(check.hold),
        cause=words.cause_in_words(state),
        waits=waits,
    )


def _say_once(rows: list[CheckRow]) -> None:
    """Drop a finding that a row above has told already: a cluster that is away is away for all of them."""
    told: set[str] = set()
    for row in rows:
        if row.chip == words.ERROR and row.finding in told:
            row.finding = ""
        told.add(row.finding)


def _guard_row(guard: Check, state: CheckState | None) -> CheckRow:
    return CheckRow(
        key=f"guard:{guard.key}",
        title=guard.title,
        points=guard.points,
        chip=words.guard_chip(state),
        finding=state.finding if state else "",
        checked_at=state.checked_at if state else None,
        holding=False,
        held=0,
        hold=0,
        cause=words.cause_in_words(state),
    )


def _hint_group(scenario: SessionScenario, released: list[HintRelease]) -> dict[str, Any]:
    given = {release.index: release for release in released}
    rows = [
        HintRow(f"h{scenario.pk}-{index}", index, hint.tier, hint.text, given.get(index))
        for index, hint in enumerate(pack_for(scenario).hints)
    ]
    return {"scenario": scenario, "hints": rows}
