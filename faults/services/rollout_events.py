"""Events of what an injection has rolled out anew, forgotten before the candidate comes.

A practice cluster's addons are weeks old, and their events have expired. Those of one DaemonSet whose pods were
replaced a minute ago would lead straight to what was changed. Warnings stay: they may be what there is to read.
"""

from __future__ import annotations

from contextlib import suppress

from faults import selectors
from faults.errors import NotFound
from faults.models import FaultRun
from faults.tiers import policy_of


def forget_rollouts(*, run: FaultRun) -> None:
    """Delete the normal events of the cluster's own namespaces that a fault reaches, on practice clusters alone.

    Raises ClusterError.
    """
    if not policy_of(run.cluster).may_be_dropped:
        return
    kube = selectors.kube_for(run.cluster)
    for namespace in selectors.bound_pack(run).existing:
        for event in kube.list("v1", "Event", namespace):
            if event.get("type") == "Normal":
                with suppress(NotFound):  # it has expired
                    kube.delete("v1", "Event", event["metadata"]["name"], namespace)
