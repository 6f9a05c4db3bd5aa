"""The toolboxes of sessions: their image in a cluster, and whether one can be entered."""

from __future__ import annotations

from django.conf import settings

from faults import selectors
from faults.clock import Clock, RealClock
from faults.errors import NotFound
from faults.models import Cluster, FaultRun
from faults.tiers import policy_of
from faults.toolbox import NAME, PRACTICE_IMAGE, Toolbox, why_not_running

LOOK_S = 0.1


def toolbox_image(cluster: Cluster) -> str:
    """Return the image of toolboxes in a cluster; empty where none is named for real ones."""
    return PRACTICE_IMAGE if policy_of(cluster).may_be_dropped else str(settings.TOOLBOX_IMAGE)


def missing_toolbox(*, run: FaultRun, hold_s: float = 0.0, clock: Clock | None = None) -> str:
    """Return why nobody can enter the environment's toolbox, in the cluster's words, after ``hold_s`` seconds of it.

    Empty where it runs, and where none was planned. Raises ClusterError.
    """
    box, waited, clock = selectors.toolbox_of(run), 0.0, clock or RealClock()
    if box is None:
        return ""
    while (why := _look(run, box)) and waited < hold_s:
        clock.wait(LOOK_S)
        waited += LOOK_S
    return why


def _look(run: FaultRun, box: Toolbox) -> str:
    try:
        return why_not_running(selectors.kube_for(run.cluster).get("v1", "Pod", NAME, box.namespace))
    except NotFound:
        return "its pod has gone"
