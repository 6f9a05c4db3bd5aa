"""ReplicaSets: so many pods of a template."""

from __future__ import annotations

from kubesim.api.selectors import LabelSelector, from_struct
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, controller_of, is_ending, owner_reference
from kubesim.errors import ApiError, Obj
from kubesim.times import stamp

BURST = 500


class ReplicaSetController(Controller):
    """Creates and deletes pods until the number is right."""

    source = "replicaset-controller"
    kind = "ReplicaSet"
    resource = "replicasets.apps"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.informers[self.resource]
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch ReplicaSets and their pods."""
        self.watch_owned(self.pods, self.kind)
        self.watch_own(self.sets)
        self.pods.add_handler(self._stray)

    def _stray(self, old: Obj | None, new: Obj | None) -> None:
        """A pod without a controller may be one for us."""
        if new is None or controller_of(new) is not None or not pods.is_active(new):
            return
        for owner in self.sets.by("namespace", new["metadata"]["namespace"]):
            if self.selector(owner).selects(new):
                self.queue.add(f"{owner['metadata']['namespace']}/{owner['metadata']['name']}")

    def selector(self, owner: Obj) -> LabelSelector:
        """Return what selects the pods of an owner."""
        return from_struct(owner["spec"]["selector"])

    async def sync(self, namespace: str, name: str) -> None:
        """Adopt, create or delete pods, then report."""
        owner = self.sets.get(namespace, name)
        if owner is None:
            return
        await self._adopt(owner)
        owned = [pod for pod in self.pods.by("controller", owner["metadata"]["uid"]) if pods.is_active(pod)]
        failure = None
        if not is_ending(owner):
            failure = await self._match(owner, owned)
        owned = [pod for pod in self.pods.by("controller", owner["metadata"]["uid"]) if pods.is_active(pod)]
        await self._report(owner, owned, failure)
        if failure is not None:
            raise failure

    async def _adopt(self, owner: Obj) -> None:
        """Become the controller of matching pods that have none."""
        selector = self.selector(owner)
        for pod in self.pods.by("namespace", owner["metadata"]["namespace"]):
            if controller_of(pod) is None and pods.is_active(pod) and selector.selects(pod) and not is_ending(owner):
                references = [*(pod["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
                patch = {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": references}}
                meta = pod["metadata"]
                self.pods.note(await self.client.patch("pods", meta["name"], meta["namespace"], patch))

    async def _match(self, owner: Obj, owned: list[Obj]) -> ApiError | None:
        missing = owner["spec"].get("replicas", 1) - len(owned)
        try:
            for _ in range(min(missing, BURST)):
                await pods.create(self, owner, pods.from_template(owner, owner["spec"]["template"]))
        except ApiError as error:
            return error
        for pod in sorted(owned, key=pods.deletion_rank)[: max(-missing, 0)]:
            await pods.delete(self, owner, pod)
        return None

    async def _report(self, owner: Obj, owned: list[Obj], failure: ApiError | None) -> None:
        now = self.clock.now()
        wait = owner["spec"].get("minReadySeconds", 0)
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        counts = {
            "fullyLabeledReplicas": sum(labels.items() <= pods_labels(pod).items() for pod in owned),
            "readyReplicas": sum(pods.ready_since(pod) is not None for pod in owned),
            "availableReplicas": sum(pods.is_available(pod, wait, now) for pod in owned),
        }
        status: Obj = {"replicas": len(owned)} | {name: count for name, count in counts.items() if count}
        status["observedGeneration"] = owner["metadata"].get("generation", 1)
        if failure is not None:
            condition = {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": failure.message,
                "lastTransitionTime": stamp(now),
            }
            old = owner.get("status", {}).get("conditions") or []
            status["conditions"] = old if old and old[0]["message"] == failure.message else [condition]
        await self.write_status(self.sets, owner, status)
        if wait and counts["availableReplicas"] < counts["readyReplicas"]:
            self.queue.add_after(f"{owner['metadata']['namespace']}/{owner['metadata']['name']}", wait)


class ReplicationControllerController(ReplicaSetController):
    """The same for ReplicationControllers, whose selector is a plain map of labels."""

    source = "replication-controller"
    kind = "ReplicationController"
    resource = "replicationcontrollers"

    def selector(self, owner: Obj) -> LabelSelector:
        """Return what selects the pods of an owner."""
        return from_struct({"matchLabels": owner["spec"].get("selector") or {}})


def pods_labels(pod: Obj) -> dict[str, str]:
    """Return the labels of a pod."""
    return pod["metadata"].get("labels") or {}
