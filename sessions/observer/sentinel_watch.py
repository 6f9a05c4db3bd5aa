"""NVSentinel's pipeline for the faults of one session: what it has come to, and when each stage was first seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from faults.errors import NotFound
from faults.models import Cluster, Step
from faults.nvsentinel import GpuFault, StageState, Watched, find_stages, is_installed, judge
from faults.nvsentinel.watched import (
    BREAKER,
    NAMESPACE,
    ORDER_KINDS,
    ORDER_VERSION,
    RECORD_KIND,
    RECORD_VERSION,
    TRIPPED,
)
from faults.xids import xids
from sessions.kinds import EVENT, NODE, POD
from sessions.live import SentinelRow, SentinelState
from sessions.observer.cluster import ClusterWatch

Obj = dict[str, Any]
MAX_FAULTS = 12
XID_STEP = "xid"


class SentinelWatch:
    """Reads the faults and the janitor's orders when told to look; ``state`` may be asked from any thread."""

    def __init__(self, cluster: ClusterWatch, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._now = now
        self._faults: Sequence[GpuFault] = ()
        self._orders: Sequence[Obj] = ()
        self._records: Sequence[Obj] = ()
        self._tripped = False
        self._seen: dict[GpuFault, dict[str, datetime]] = {}

    def look(self, cluster: Cluster) -> bool:
        """Ask for what no watch delivers; return whether NVSentinel has something to do with. Raises ClusterError."""
        if not is_installed(self._watched()):
            return False
        self._faults = xid_faults(cluster)
        if not self._faults:
            return False
        self._orders = [{**order, "kind": kind} for kind in ORDER_KINDS for order in self._list(ORDER_VERSION, kind)]
        self._records = self._list(RECORD_VERSION, RECORD_KIND)
        self._tripped = self._is_tripped()
        self.state()
        return True

    def state(self) -> SentinelState:
        """Return the pipeline of each fault, the newest first."""
        watched, now = self._watched(), self._now()
        if not is_installed(watched):
            return SentinelState(is_installed=False)
        return SentinelState(True, tuple(self._row(fault, watched, now) for fault in self._faults))

    def _row(self, fault: GpuFault, watched: Watched, now: datetime) -> SentinelRow:
        seen = self._seen.setdefault(_without_end(fault), {})
        stages = find_stages(fault, watched, seen)
        for stage in stages:
            if stage.state == StageState.DONE:
                seen.setdefault(stage.name, stage.at or now)
        return SentinelRow(fault, find_stages(fault, watched, seen), judge(fault, stages, watched, now))

    def _watched(self) -> Watched:
        cache = self._cluster.cache
        return Watched(
            cache.objects(NODE),
            cache.objects(POD),
            cache.objects(EVENT),
            self._orders,
            breaker_tripped=self._tripped,
            records=self._records,
        )

    def _list(self, api_version: str, kind: str) -> list[Obj]:
        try:
            return self._cluster.kube.list(api_version, kind)
        except NotFound:  # installed without the janitor, or without records as objects
            return []

    def _is_tripped(self) -> bool:
        try:
            found = self._cluster.kube.get("v1", "ConfigMap", BREAKER, NAMESPACE)
        except NotFound:
            return False
        return bool((found.get("data") or {}).get("status") == TRIPPED)


def xid_faults(cluster: Cluster) -> list[GpuFault]:
    """Return the Xids injected into a cluster, by scenarios and by hand, the newest first."""
    steps = Step.objects.filter(run__cluster=cluster, kind=XID_STEP, applied_at__isnull=False).order_by("applied_at")
    found: list[GpuFault] = []
    for step in steps:
        fault, known = step.undo["fault"], {(one.node, one.gpu, one.xid) for one in found}
        where = (step.target["name"], fault["gpu_id"], fault["xid_type"])
        assert step.applied_at is not None  # as was asked for
        if fault["xid_type"] in xids():
            found.append(GpuFault(*where, step.applied_at, fault["layers"], step.reverted_at, repeats=where in known))
    return found[: -MAX_FAULTS - 1 : -1]


def _without_end(fault: GpuFault) -> GpuFault:
    return GpuFault(fault.node, fault.gpu, fault.xid, fault.at, fault.layers)
