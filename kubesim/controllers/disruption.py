"""PodDisruptionBudgets: how many of their pods may go now."""

from __future__ import annotations

from datetime import timedelta

from kubesim.api.selectors import from_struct
from kubesim.conditions import condition_of, renewed, replaced
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, controller_of, is_ending, latest, queue_key
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.shares import share
from kubesim.times import parse

SCALED = ("replicationcontrollers", "replicasets.apps", "deployments.apps", "statefulsets.apps")
"""The resources whose replicas say how many pods there should be."""
DELETION_S = 120.0
"""The seconds that an eviction may take to delete its pod."""
ALLOWED = "DisruptionAllowed"


class UncountableError(Exception):
    """It cannot be told how many pods there should be."""


class DisruptionController(Keeper):
    """Keeps the status of every budget."""

    source = "controllermanager"
    resource = "poddisruptionbudgets.policy"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informers["pods"]
        self.owners = {resource: self.informers[resource] for resource in SCALED}

    def listen(self) -> None:
        """Watch budgets and the pods that they may select."""
        super().listen()
        self.pods.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = latest(old, new)
        for budget in self.own.by("namespace", pod["metadata"]["namespace"]):
            if from_struct(budget["spec"].get("selector")).selects(pod):
                self.queue.add(queue_key(budget))

    async def look_after(self, budget: Obj) -> None:
        """Count the pods of one budget."""
        selector, namespace = from_struct(budget["spec"].get("selector")), budget["metadata"]["namespace"]
        selected = [pod for pod in self.pods.by("namespace", namespace) if selector.selects(pod)]
        if not selected:
            await self.tell(budget, "NoPods")
        try:
            expected, desired = await self._wanted(budget, selected)
        except UncountableError as error:
            await self.tell(budget, "CalculateExpectedPodCountFailed", error=error)
            status = {**budget.get("status", {}), "disruptionsAllowed": 0}
            await self._write(budget, status, "False", "SyncFailed", str(error))
            return
        disrupted = await self._disrupted(budget, selected)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in selected)
        allowed = max(0, healthy - desired) if expected else 0
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 1),
            "conditions": budget.get("status", {}).get("conditions") or [],
        } | ({"disruptedPods": disrupted} if disrupted else {})
        await self._write(budget, status, *(("True", "SufficientPods") if allowed else ("False", "InsufficientPods")))

    async def _wanted(self, budget: Obj, selected: list[Obj]) -> tuple[int, int]:
        """Return how many pods there should be, and how many of them must stay healthy."""
        least, most = budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable")
        if most is None and isinstance(least, int):
            return len(selected), least
        if most is None and least is None:
            return 0, 0
        expected = await self._scale_of_all(budget, selected)
        if most is None:
            return expected, share(least, expected)
        return expected, max(0, expected - share(most, expected))

    async def _scale_of_all(self, budget: Obj, selected: list[Obj]) -> int:
        sizes: dict[str, int] = {}
        for pod in selected:
            owner = controller_of(pod)
            if owner is not None:
                uid, size = self._scale(pod, owner)
                sizes[uid] = size
        if any(controller_of(pod) is None for pod in selected):
            await self.tell(budget, "UnmanagedPods", selector=_selector_text(budget["spec"].get("selector") or {}))
        return sum(sizes.values())

    def _scale(self, pod: Obj, reference: Obj) -> tuple[str, int]:
        """Return the uid and the size of what a pod belongs to in the end. Raises UncountableError."""
        try:
            kind = registry.by_kind(reference["apiVersion"], reference["kind"])
        except ApiError as error:
            raise UncountableError(error.message) from error
        if kind.resource not in self.owners:
            raise UncountableError(f"{kind.resource} does not implement the scale subresource")
        owner = self.owners[kind.resource].get(pod["metadata"]["namespace"], reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            raise UncountableError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        above = controller_of(owner)
        if kind.resource == "replicasets.apps" and above is not None:
            return self._scale(pod, above)
        return str(owner["metadata"]["uid"]), int(owner["spec"]["replicas"])

    async def _disrupted(self, budget: Obj, selected: list[Obj]) -> dict[str, str]:
        """Return the pods whose eviction was granted but that are not being deleted yet, while that may be so."""
        noted, now = budget.get("status", {}).get("disruptedPods") or {}, self.clock.now()
        kept: dict[str, str] = {}
        for pod in selected:
            meta = pod["metadata"]
            if is_ending(pod) or meta["name"] not in noted:
                continue
            left = (parse(noted[meta["name"]]) + timedelta(seconds=DELETION_S) - now).total_seconds()
            if left < 0:
                await self.tell(pod, "NotDeleted", namespace=meta["namespace"])
                continue
            kept[meta["name"]] = noted[meta["name"]]
            self.queue.add_after(queue_key(budget), left + 1.0)
        return kept

    async def _write(self, budget: Obj, status: Obj, truth: str, reason: str, message: str = "") -> None:
        fresh = renewed(condition_of(status, ALLOWED), ALLOWED, (truth, reason, message), self.clock.now())
        fresh["observedGeneration"] = status.get("observedGeneration", 0)
        status = {**status, "conditions": replaced(status.get("conditions"), fresh)}
        await self.write_status(self.own, budget, status)


def _is_healthy(pod: Obj) -> bool:
    return pods.ready_since(pod) is not None and not is_ending(pod)


def _selector_text(selector: Obj) -> str:
    """Return a label selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(_rule_text(rule) for rule in selector.get("matchExpressions") or ())
    parts = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}}"
    return f"&LabelSelector{{{parts},}}"


def _rule_text(rule: Obj) -> str:
    values = " ".join(rule.get("values") or ())
    return f"LabelSelectorRequirement{{Key:{rule['key']},Operator:{rule['operator']},Values:[{values}],}},"
