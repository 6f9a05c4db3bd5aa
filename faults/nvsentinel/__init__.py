"""NVSentinel on a node with a failed GPU: how far its pipeline has come, and whether that is as designed."""

from faults.nvsentinel.stages import STAGES, Stage, StageState, find_stages
from faults.nvsentinel.verdicts import Outlook, Verdict, judge
from faults.nvsentinel.watched import GpuFault, NodeState, Watched, is_installed

__all__ = [
    "STAGES",
    "GpuFault",
    "NodeState",
    "Outlook",
    "Stage",
    "StageState",
    "Verdict",
    "Watched",
    "find_stages",
    "is_installed",
    "judge",
]
