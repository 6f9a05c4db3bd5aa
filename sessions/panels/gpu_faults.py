"""The panel of hardware faults: those of the scenarios, and those injected by hand or by programs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from faults.fault_preview import COMBINED, in_short, trouble_in_short
from faults.models import FaultRun, InjectedFault, Step
from faults.xids import xids
from sessions.models import InterviewSession
from sessions.panels import words
from sessions.panels.subject import Context, Subject
from sessions.services.gpu_faults import has_agents, scenario_steps
from sessions.services.tied_faults import faults_of, kind_of, title_of

MAX_FAULTS = 20
LAYERS: Final = {
    "combined": "everywhere",
    "log": "in the kernel log only",
    "cuda": "in CUDA only",
    "hang": "everywhere but in programs, which wait",
}
NOT_INJECTED: Final = words.Chip("octagon", "Not injected", "red")
"""For a fault that failed: whatever was there of it has been taken back."""
_STATES = InterviewSession.State
_OVER = (FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED)


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A fault as the panel shows it. ``whose``: who or what has injected it; ``until`` is None once it is over.

    ``title`` is the whole of it for those who do not see the row: ``what`` it is, and where.
    """

    key: str
    chip: words.Chip
    what: str
    title: str
    name: str
    effect: str
    whose: str
    since: datetime
    until: datetime | None
    trouble: str = ""
    may_check: bool = False
    may_recover: bool = False

    @property
    def where(self) -> str:
        """Return the place alone."""
        return self.title.removeprefix(self.what).removeprefix(" on").strip()


def gpu_faults(subject: Subject) -> Context:
    """Return the faults, those of scenarios first; nothing in a session that has none and can have none by hand."""
    session, can_inject = subject.session, has_agents(subject.session)
    rows = [_of_step(step, title) for step, title in scenario_steps(session)]
    rows += [_of_fault(fault) for fault in faults_of(session)[:MAX_FAULTS]] if session.has_tied_faults else []
    may_inject = can_inject and session.state == _STATES.LIVE
    return {"has_agents": can_inject or bool(rows), "faults": rows, "may_inject": may_inject}


def _of_step(step: Step, title: str) -> FaultRow:
    fault, run, node = step.undo["fault"], step.run, step.target["name"]
    name, effect = _meaning(fault)
    return FaultRow(
        step.undo["fault_id"],
        words.RUN[FaultRun.Status(run.status)],
        kind_of(fault),
        f"{kind_of(fault)} on GPU {fault['gpu_id']} of {node}",
        name,
        effect,
        f"scenario {title}",
        step.applied_at or step.recorded_at,
        None if run.status == FaultRun.Status.RESOLVED else run.deadline,
        may_check=True,
    )


def _of_fault(fault: InjectedFault) -> FaultRow:
    status = FaultRun.Status(fault.run.status)
    is_over = status in _OVER or fault.recovered_at is not None
    name, effect = _meaning(fault.details) if fault.gpu is not None else ("", "Pods no longer reach each other.")
    return FaultRow(
        fault.fault_id,
        NOT_INJECTED if fault.error else words.RUN[status],
        kind_of(fault.details) if fault.gpu is not None else fault.type.replace("_", " ").capitalize(),
        title_of(fault),
        name,
        effect,
        _whose(fault.requested_by),
        fault.run.injected_at or fault.created_at,
        None if is_over else fault.run.deadline,
        fault.error or fault.run.error,
        may_check=fault.gpu is not None and not fault.error,
        may_recover=not is_over,
    )


def _meaning(about: dict[str, object]) -> tuple[str, str]:
    """Return the name of an Xid, and a fault's effect in a sentence."""
    xid = xids().get(int(str(about.get("xid_type", 0))))
    if xid is None:
        return "", trouble_in_short(str(about.get("effect", "")))
    layers = str(about.get("layers", COMBINED))
    return xid.name, f"Shows {LAYERS.get(layers, layers)}. {in_short(xid, layers)}"


def _whose(requested_by: str) -> str:
    """Return who asked for a fault: a person by name, or a program by that of its token."""
    kind, _, name = requested_by.partition(":")
    return f"the API, token {name}" if kind == "token" else f"by hand, {name}" if kind == "user" else requested_by
