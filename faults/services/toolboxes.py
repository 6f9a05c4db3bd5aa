"""The toolboxes of sessions: their image in a cluster, and whether one can be entered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings

from faults import selectors, session_agents
from faults.clock import Clock, RealClock
from faults.errors import FaultError, NotFound
from faults.inventory import is_open, kind_of
from faults.models import Cluster, FaultRun
from faults.packs import Pack
from faults.tiers import policy_of
from faults.toolbox import NAME, PRACTICE_IMAGE, Toolbox, why_not_running
from faults.toolbox_nodes import is_set_aside

LOOK_S = 0.1
NO_AGENTS = "set NODE_AGENT_IMAGE (see docs/operating.md)"
Obj = dict[str, Any]


def toolbox_image(cluster: Cluster) -> str:
    """Return the image of toolboxes in a cluster; empty where none is named for real ones."""
    return PRACTICE_IMAGE if policy_of(cluster).may_be_dropped else str(settings.TOOLBOX_IMAGE)


def agent_image(cluster: Cluster) -> str:
    """Return the image of node agents in a cluster. Raises FaultError where none is named for real ones."""
    image = session_agents.PRACTICE_IMAGE if policy_of(cluster).may_be_dropped else str(settings.NODE_AGENT_IMAGE)
    if not image:
        raise FaultError(f"The scenarios need node agents, and {cluster.name} has no image for them: {NO_AGENTS}.")
    return image


def has_gpu_for_toolbox(*, cluster: Cluster, packs: Iterable[Pack]) -> bool:
    """Return whether a session's toolbox gets a GPU: a scenario asks for one, and a node is set aside for it.

    Raises ClusterError.
    """
    if not any(pack.requires.toolbox_gpu for pack in packs):
        return False
    return bool(nodes_for_toolboxes(selectors.kube_for(cluster).list("v1", "Node")))


def nodes_for_toolboxes(nodes: Iterable[Obj]) -> list[str]:
    """Return the names of the nodes that are set aside for toolboxes, open, and have a GPU."""
    return [node["metadata"]["name"] for node in nodes if is_set_aside(node) and is_open(node) and kind_of(node).gpus]


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
