"""PodDisruptionBudgets: how many of their pods may go now."""

from __future__ import annotations

import math

from kubesim.api.selectors import from_struct
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, controller_of, queue_key
from kubesim.errors import Obj
from kubesim.times import stamp

OWNERS = {
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicationController": "replicationcontrollers",
}
"""The kinds whose replicas say how many pods there should be."""


class DisruptionController(Controller):
    """Keeps the status of every budget."""

    source = "controllermanager"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.budgets = self.informers["poddisruptionbudgets.policy"]
        self.pods = self.informers["pods"]
        self.owners = {kind: self.informers[resource] for kind, resource in OWNERS.items()}

    def listen(self) -> None:
        """Watch budgets and the pods that they may select."""
        self.watch_own(self.budgets)
        self.pods.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old
        assert pod is not None
        for budget in self.budgets.by("namespace", pod["metadata"]["namespace"]):
            if from_struct(budget["spec"].get("selector") or {}).selects(pod):
                self.queue.add(queue_key(budget))

    async def sync(self, namespace: str, name: str) -> None:
        """Count the pods of one budget."""
        budget = self.budgets.get(namespace, name)
        if budget is None:
            return
        selector = from_struct(budget["spec"].get("selector") or {})
        selected = [pod for pod in self.pods.by("namespace", namespace) if selector.selects(pod)]
        if not selected:
            await self.recorder.normal(budget, "NoPods", "No matching pods found")
        expected, desired = self._wanted(budget["spec"], selected)
        healthy = sum(pods.ready_since(pod) is not None and pods.is_active(pod) for pod in selected)
        allowed = max(0, healthy - desired) if expected else 0
        status = {
            "conditions": [self._condition(budget, allowed)],
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        await self.write_status(self.budgets, budget, status)

    def _wanted(self, spec: Obj, selected: list[Obj]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them must stay healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return len(selected), least
        owners = {owner["uid"]: owner for pod in selected if (owner := controller_of(pod)) is not None}
        namespace = selected[0]["metadata"]["namespace"] if selected else ""
        known = [owner for owner in owners.values() if owner["kind"] in self.owners]
        found = [self.owners[owner["kind"]].get(namespace, owner["name"]) for owner in known]
        expected = sum(int(owner["spec"]["replicas"]) for owner in found if owner is not None)
        if least is not None:
            return expected, _share(least, expected)
        return expected, max(0, expected - (most if isinstance(most, int) else _share(most or "0%", expected)))

    def _condition(self, budget: Obj, allowed: int) -> Obj:
        status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        old: Obj = next(iter(budget.get("status", {}).get("conditions") or ()), {})
        since = old["lastTransitionTime"] if old.get("status") == status else stamp(self.clock.now())
        return {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "lastTransitionTime": since,
            "reason": reason,
            "message": "",
        }


def _share(percent: str, total: int) -> int:
    """Return a percentage of a number, rounded up."""
    return math.ceil(int(percent.rstrip("%")) * total / 100)
