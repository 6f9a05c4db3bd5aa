"""ReplicaSets: so many pods of a template."""

from __future__ import annotations

from collections import Counter

from kubesim.api.selectors import LabelSelector, from_struct
from kubesim.conditions import condition_of, renewed, without
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, controller_of, controller_uid, is_ending
from kubesim.controllers.owned import Owned
from kubesim.errors import ApiError, Obj

BURST = 500
MANY, PAUSE_S, MAX_PAUSE_S = 200, 0.001, 1.0
FAILURE = "ReplicaFailure"


class ReplicaSetController(Keeper):
    """Creates and deletes pods until the number is right."""

    source = "replicaset-controller"
    resource = "replicasets.apps"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = Owned(
            self,
            "pods",
            selector=self.selector,
            accepts=lambda owner, pod: pods.is_active(pod),
            delay_s=self._pause_s,
        )

    def listen(self) -> None:
        """Watch ReplicaSets and their pods."""
        self.own.add_index("controller", controller_uid)
        self.pods.listen()
        super().listen()

    def selector(self, owner: Obj) -> LabelSelector:
        """Return what selects the pods of an owner."""
        return from_struct(owner["spec"]["selector"])

    def _pause_s(self, uid: str) -> float:
        """Let the changes of many pods gather: each look at them costs as much as there are."""
        count = self.pods.informer.count("controller", uid)
        return min(count * PAUSE_S, MAX_PAUSE_S) if count > MANY else 0.0

    async def look_after(self, owner: Obj) -> None:
        """Adopt, create or delete pods, then report."""
        owned = await self.pods.claim(owner)
        failure = None if is_ending(owner) else await self._match(owner, owned)
        await self._report(owner, owned, failure)
        if failure is not None:
            raise failure

    async def _match(self, owner: Obj, owned: list[Obj]) -> ApiError | None:
        missing = owner["spec"].get("replicas", 1) - len(owned)
        if missing > 0:
            made = (pods.from_template(owner, owner["spec"]["template"]) for _ in range(min(missing, BURST)))
            return await pods.create_all(self, owner, made)
        try:
            for pod in self._surplus(owner, owned, min(-missing, BURST)):
                await self.remove(owner, self.pods.informer, pod)
        except ApiError as error:
            return error
        return None

    def _surplus(self, owner: Obj, owned: list[Obj], count: int) -> list[Obj]:
        """Return the pods to delete; of equal ones, those on nodes with many pods of the same deployment."""
        if not count:
            return []
        parent = controller_of(owner)
        siblings = self.own.by("controller", parent["uid"]) if parent is not None else [owner]
        related = [pod for rs in siblings for pod in self.pods.of(rs) if pods.is_active(pod)]
        crowd = Counter(pod["spec"].get("nodeName", "") for pod in related)
        now = self.clock.now()
        ranked = sorted(owned, key=lambda pod: pods.removal_rank(pod, now, crowd[pod["spec"].get("nodeName", "")]))
        return ranked[:count]

    async def _report(self, owner: Obj, owned: list[Obj], failure: ApiError | None) -> None:
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in owned),
            "readyReplicas": sum(pods.ready_since(pod) is not None for pod in owned),
            "availableReplicas": sum(pods.is_available(self, owner, pod) for pod in owned),
        }
        status = {name: value for name, value in owner.get("status", {}).items() if name not in counts}
        status |= {"replicas": len(owned)} | {name: count for name, count in counts.items() if count}
        status["observedGeneration"] = owner["metadata"].get("generation", 1)
        self._set_failure(owner, status, len(owned), failure)
        await self.write_status(self.own, owner, status, retries=1)

    def _set_failure(self, owner: Obj, status: Obj, count: int, failure: ApiError | None) -> None:
        """Say why pods could not be made or deleted, until they can: the first reason stands."""
        if bool(failure) == bool(condition_of(status, FAILURE)):
            return
        conditions = without(status.get("conditions"), FAILURE)
        if failure is not None:
            reason = "FailedCreate" if count < owner["spec"]["replicas"] else "FailedDelete"
            conditions.append(renewed({}, FAILURE, ("True", reason, failure.message), self.clock.now()))
        status.pop("conditions", None)
        status |= {"conditions": conditions} if conditions else {}


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers, whose selector is a plain map of labels."""

    source = "replication-controller"
    resource = "replicationcontrollers"

    def selector(self, owner: Obj) -> LabelSelector:
        """Return what selects the pods of an owner."""
        return from_struct({"matchLabels": owner["spec"].get("selector") or {}})


def labels_of(pod: Obj) -> dict[str, str]:
    """Return the labels of a pod."""
    return pod["metadata"].get("labels") or {}
