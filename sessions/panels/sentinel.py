"""The panel of NVSentinel: each injected Xid's way through its stages, and whether that is as designed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from faults.nvsentinel import GpuFault, Outlook, Stage, StageState, Verdict
from faults.xids import xids
from sessions.live import SentinelRow
from sessions.panels import words
from sessions.panels.subject import Context, Subject

SHAPES: Final = {
    StageState.DONE: ("tick", "green"),
    StageState.NOW: ("half", "blue"),
    StageState.WAITING: ("hollow", "grey"),
    StageState.FAILED: ("octagon", "orange"),
    StageState.SKIPPED: ("dashed", "grey"),
    StageState.NOT_PLANNED: ("dashed", "grey"),
}
CHIPS: Final = {
    Outlook.ABSENT: words.Chip("hollow", "Not installed", "grey"),
    Outlook.UNDER_WAY: words.Chip("half", "Under way", "blue"),
    Outlook.AS_DESIGNED: words.Chip("tick", "As designed", "green"),
    Outlook.STUCK: words.Chip("triangle", "Stuck", "orange"),
    Outlook.OVER: words.Chip("tick", "Over", "grey"),
}


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage as its mark shows it; ``after`` is the time since the fault in words."""

    name: str
    state: str
    shape: str
    hue: str
    at: datetime | None
    after: str


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A fault's pipeline as the panel shows it."""

    fault: GpuFault
    name: str
    stages: tuple[StageView, ...]
    chip: words.Chip
    verdict: Verdict

    @property
    def key(self) -> str:
        """Return a name for its row on the page."""
        return f"sentinel-{self.fault.node}-{self.fault.gpu}-{self.fault.at:%H%M%S%f}"


def sentinel(subject: Subject) -> Context:
    """Return the pipelines; nothing where NVSentinel is not installed."""
    state = subject.live.sentinel if subject.live else None
    rows = [_pipeline(row) for row in state.rows] if state else []
    return {"is_installed": bool(state and state.is_installed), "pipelines": rows}


def _pipeline(row: SentinelRow) -> PipelineView:
    stages = tuple(_stage(stage, row.fault.at) for stage in row.stages)
    return PipelineView(row.fault, xids()[row.fault.xid].name, stages, CHIPS[row.verdict.outlook], row.verdict)


def _stage(stage: Stage, since: datetime) -> StageView:
    shape, hue = SHAPES[stage.state]
    seconds = max(0, round((stage.at - since).total_seconds())) if stage.at else None
    after = "" if seconds is None else f"+{seconds // 60}:{seconds % 60:02}"
    return StageView(stage.name, str(stage.state), shape, hue, stage.at, after)
