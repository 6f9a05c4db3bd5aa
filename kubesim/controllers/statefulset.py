"""StatefulSets: pods with a name, an order and volumes of their own."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, delete_if_there, is_ending, queue_key
from kubesim.controllers.claims import Claims
from kubesim.controllers.history import HASH_LABEL, History, template_of
from kubesim.errors import ApiError, Obj

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


@dataclass
class Plan:
    """One look at a set: its pods in order, those there are too many, and the two revisions in force."""

    owner: Obj
    current: Obj
    update: Obj
    replicas: dict[int, Obj | None]
    condemned: list[Obj]
    """Highest ordinal first."""

    @property
    def monotonic(self) -> bool:
        """Whether pods come and go one after another."""
        return bool(self.owner["spec"].get("podManagementPolicy") != "Parallel")


class StatefulSetController(Controller):
    """Brings stateful sets to their pods."""

    source = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.informers["statefulsets.apps"]
        self.pods = self.informers["pods"]
        self.history = History(self, "controller.kubernetes.io/hash")
        self.claims = Claims(self)

    def listen(self) -> None:
        """Watch StatefulSets, their pods and their revisions."""
        self.watch_owned(self.pods, "StatefulSet")
        self.watch_owned(self.history.revisions, "StatefulSet")
        self.watch_own(self.sets)

    async def sync(self, namespace: str, name: str) -> None:
        """Take the next steps of one set and report."""
        owner = self.sets.get(namespace, name)
        if owner is None:
            return
        update = await self.history.current(owner)
        plan = self._plan(owner, update)
        failure = None
        if not is_ending(owner):
            try:
                await self._act(plan)
            except ApiError as error:
                failure = error
        await self._report(owner, plan)
        if failure is not None:
            raise failure

    def _plan(self, owner: Obj, update: Obj) -> Plan:
        known = {revision["metadata"]["name"]: revision for revision in self.history.owned(owner)}
        current = known.get(owner.get("status", {}).get("currentRevision", ""), update)
        start, count = start_of(owner), owner["spec"]["replicas"]
        plan = Plan(owner, current, update, dict.fromkeys(range(start, start + count)), [])
        owned = [(ordinal_of(pod, owner), pod) for pod in self._owned(owner)]
        for ordinal, pod in sorted(owned, key=lambda entry: -entry[0]):
            if ordinal in plan.replicas:
                plan.replicas[ordinal] = pod
            elif ordinal >= 0:
                plan.condemned.append(pod)
        return plan

    def _owned(self, owner: Obj) -> list[Obj]:
        return self.pods.by("controller", owner["metadata"]["uid"])

    async def _act(self, plan: Plan) -> None:
        for ordinal in plan.replicas:
            if await self._keep(plan, ordinal) and plan.monotonic:
                return
        unhealthy = self._first_unavailable(plan)
        for pod in plan.condemned:
            if is_ending(pod):
                if plan.monotonic:
                    return
                continue
            if plan.monotonic and not self._available(plan, pod) and pod is not unhealthy:
                return
            await self._delete(plan.owner, pod)
            if plan.monotonic:
                return
        await self._update(plan)

    async def _keep(self, plan: Plan, ordinal: int) -> bool:
        """Bring one replica about; tells whether its successors must wait."""
        pod = plan.replicas[ordinal]
        if pod is not None and pods.phase_of(pod) in pods.ENDED:
            if not is_ending(pod):
                await self._delete(plan.owner, pod)
            return True
        if pod is None:
            await self._create(plan, ordinal)
            return True
        if pods.phase_of(pod) == "Pending":
            await self.claims.create(plan.owner, ordinal, pod["metadata"]["name"])
        return is_ending(pod) or not self._available(plan, pod)

    async def _create(self, plan: Plan, ordinal: int) -> None:
        owner, revision = plan.owner, self._revision_for(plan, ordinal)
        pod = pod_of(owner, revision, ordinal)
        name, set_name = pod["metadata"]["name"], owner["metadata"]["name"]
        try:
            await self.claims.create(owner, ordinal, name)
            made = await self.client.create("pods", pod, namespace=owner["metadata"]["namespace"])
        except ApiError as error:
            if error.reason == "AlreadyExists":
                raise
            text = f"create Pod {name} in StatefulSet {set_name} failed error: {error.message}"
            await self.recorder.warning(owner, "FailedCreate", text)
            raise
        self.pods.note(made, created=True)
        plan.replicas[ordinal] = made
        text = f"create Pod {name} in StatefulSet {set_name} successful"
        await self.recorder.normal(owner, "SuccessfulCreate", text)

    def _revision_for(self, plan: Plan, ordinal: int) -> Obj:
        """Return the revision that a missing pod is made of: the old one below the partition of an update."""
        owner, strategy = plan.owner, plan.owner["spec"]["updateStrategy"]
        rolling, first = strategy.get("rollingUpdate"), start_of(owner)
        currently = owner.get("status", {}).get("currentReplicas", 0)
        if strategy["type"] != "RollingUpdate":
            return plan.update
        old = (
            ordinal < first + currently
            if rolling is None or not rolling.get("partition")
            else ordinal < first + rolling["partition"]
        )
        return plan.current if old else plan.update

    async def _delete(self, owner: Obj, pod: Obj) -> None:
        if await delete_if_there(self, "pods", pod):
            names = pod["metadata"]["name"], owner["metadata"]["name"]
            text = "delete Pod {} in StatefulSet {} successful".format(*names)
            await self.recorder.normal(owner, "SuccessfulDelete", text)

    def _available(self, plan: Plan, pod: Obj) -> bool:
        wait = plan.owner["spec"].get("minReadySeconds", 0)
        if pods.phase_of(pod) != "Running" or pods.ready_since(pod) is None:
            return False
        if pods.is_available(pod, wait, self.clock.now()):
            return True
        self.queue.add_after(queue_key(plan.owner), wait)
        return False

    def _first_unavailable(self, plan: Plan) -> Obj | None:
        living = [pod for pod in plan.replicas.values() if pod is not None]
        for pod in (*living, *reversed(plan.condemned)):
            if is_ending(pod) or not self._available(plan, pod):
                return pod
        return None

    async def _update(self, plan: Plan) -> None:
        """Replace the highest pod of an old revision, one at a time, down to the partition."""
        strategy = plan.owner["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return
        lowest = start_of(plan.owner) + (strategy.get("rollingUpdate") or {}).get("partition", 0)
        wanted = plan.update["metadata"]["name"]
        for ordinal in sorted(plan.replicas, reverse=True):
            pod = plan.replicas[ordinal]
            if ordinal < lowest or pod is None:
                return
            if revision_of(pod) != wanted and not is_ending(pod):
                await self._delete(plan.owner, pod)
                return
            if is_ending(pod) or not self._available(plan, pod):
                return

    async def _report(self, owner: Obj, plan: Plan) -> None:
        owned = [pod for pod in self._owned(owner) if ordinal_of(pod, owner) >= 0]
        staying = [pod for pod in owned if not is_ending(pod)]
        current, update = plan.current["metadata"]["name"], plan.update["metadata"]["name"]
        ready = [pod for pod in owned if pods.phase_of(pod) == "Running" and pods.ready_since(pod) is not None]
        counts = {
            "replicas": len(owned),
            "readyReplicas": len(ready),
            "currentReplicas": sum(revision_of(pod) == current for pod in staying),
            "updatedReplicas": sum(revision_of(pod) == update for pod in staying),
            "availableReplicas": sum(self._available(plan, pod) for pod in ready),
        }
        if self._is_updated(owner, counts):
            current, counts["currentReplicas"] = update, counts["updatedReplicas"]
        kept = ("replicas", "availableReplicas")
        status: Obj = {name: count for name, count in counts.items() if count or name in kept}
        status |= {
            "observedGeneration": owner["metadata"].get("generation", 1),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": owner.get("status", {}).get("collisionCount") or 0,
        }
        await self.write_status(self.sets, owner, status)
        if not is_ending(owner):
            await self.history.trim(owner, {current, update, *(revision_of(pod) for pod in owned)})

    @staticmethod
    def _is_updated(owner: Obj, counts: dict[str, int]) -> bool:
        rolling = owner["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        total = counts["replicas"]
        return rolling and counts["updatedReplicas"] == total == counts["readyReplicas"]


def pod_of(owner: Obj, revision: Obj, ordinal: int) -> Obj:
    """Return a set's pod: named by its ordinal, with the claims of that name as volumes."""
    pod = pods.from_template(owner, template_of(revision))
    meta, spec = pod["metadata"], pod["spec"]
    name = f"{owner['metadata']['name']}-{ordinal}"
    meta["name"] = name
    meta["labels"] |= {POD_NAME: name, POD_INDEX: str(ordinal), HASH_LABEL: revision["metadata"]["name"]}
    spec["hostname"] = name
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    templates = [template["metadata"]["name"] for template in owner["spec"].get("volumeClaimTemplates") or ()]
    own = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in templates]
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in templates]
    if own or others:
        spec["volumes"] = own + others
    return pod


def start_of(owner: Obj) -> int:
    """Return the first ordinal."""
    return int((owner["spec"].get("ordinals") or {}).get("start", 0))


def ordinal_of(pod: Obj, owner: Obj) -> int:
    """Return a pod's number; -1 for a name that is none of the set's."""
    parent, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if parent == owner["metadata"]["name"] and number.isdecimal() else -1


def revision_of(pod: Obj) -> str:
    """Return the name of the revision that a pod was made of."""
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))
