"""The panel of faults that interviewers inject into GPUs by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from faults.models import FaultRun, InjectedFault
from faults.xids import xids
from sessions.models import InterviewSession
from sessions.panels import words
from sessions.panels.subject import Context, Subject
from sessions.services.gpu_faults import gpu_faults_of, has_agents

MAX_FAULTS = 20
LAYERS: Final = {"combined": "everywhere", "log": "in the kernel log only", "cuda": "in CUDA only"}
_STATES = InterviewSession.State
_OVER = (FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED)


@dataclass(frozen=True, slots=True)
class GpuFaultRow:
    """A fault as the panel shows it."""

    fault: InjectedFault
    chip: words.Chip
    name: str
    layers: str
    may_recover: bool

    @property
    def key(self) -> str:
        """Return the fault's name."""
        return self.fault.fault_id


def gpu_faults(subject: Subject) -> Context:
    """Return the faults, the newest first; nothing in a session that has no node agents."""
    session = subject.session
    if not has_agents(session):
        return {"has_agents": False}
    rows = [_row(fault) for fault in gpu_faults_of(session)[:MAX_FAULTS] if "xid_type" in fault.details]
    return {"has_agents": True, "faults": rows, "may_inject": session.state == _STATES.LIVE}


def _row(fault: InjectedFault) -> GpuFaultRow:
    status = FaultRun.Status(fault.run.status)
    layers = LAYERS.get(fault.details.get("layers", ""), "")
    xid = xids().get(fault.details["xid_type"])
    return GpuFaultRow(fault, words.RUN[status], xid.name if xid else "", layers, status not in _OVER)
