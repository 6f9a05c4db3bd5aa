"""StatefulSets: pods with a name, an order and volumes of their own."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.controllers.claims import Claims
from kubesim.controllers.owned import HASH_LABEL, History, Owned, template_of
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


class StatefulSetController(Keeper):
    """Brings stateful sets to their pods."""

    source = "statefulset-controller"
    resource = "statefulsets.apps"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = Owned(self, "pods", accepts=_is_member)
        self.history = History(self, "controller.kubernetes.io/hash")
        self.claims = Claims(self)

    def listen(self) -> None:
        """Watch StatefulSets, their pods and their revisions."""
        self.pods.listen()
        self.history.listen()
        super().listen()

    async def look_after(self, owner: Obj) -> None:
        """Take the next steps of one set and report."""
        await self.history.claim(owner)
        if is_ending(owner) and not self.history.owned(owner):
            return  # a new one would keep the set, whose end waits for what it owns
        owned = await self.pods.claim(owner)
        update = await self.history.current(owner)
        plan = self._plan(owner, update, owned)
        try:
            if not is_ending(owner):
                await self._act(plan)
        finally:
            await self._report(owner, plan)

    def _plan(self, owner: Obj, update: Obj, owned: list[Obj]) -> Plan:
        known = {revision["metadata"]["name"]: revision for revision in self.history.owned(owner)}
        current = known.get(owner.get("status", {}).get("currentRevision", ""), update)
        start, count = start_of(owner), owner["spec"]["replicas"]
        plan = Plan(owner, current, update, dict.fromkeys(range(start, start + count)), [])
        for pod in sorted(owned, key=ordinal_of, reverse=True):
            if ordinal_of(pod) in plan.replicas:
                plan.replicas[ordinal_of(pod)] = pod
            else:
                plan.condemned.append(pod)
        return plan

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
            if plan.monotonic and not pods.is_available(self, plan.owner, pod) and pod is not unhealthy:
                return
            await self.remove(plan.owner, self.pods.informer, pod)
            if plan.monotonic:
                return
        await self._update(plan)

    async def _keep(self, plan: Plan, ordinal: int) -> bool:
        """Bring one replica about; tells whether its successors must wait."""
        pod = plan.replicas[ordinal]
        if pod is not None and pods.phase_of(pod) in pods.ENDED:
            if not is_ending(pod):
                await self.remove(plan.owner, self.pods.informer, pod)
            return True
        if pod is None:
            await self._create(plan, ordinal)
            return True
        if pods.phase_of(pod) == "Pending":
            await self.claims.create(plan.owner, ordinal, pod["metadata"]["name"])
        if plan.monotonic and (is_ending(pod) or not pods.is_available(self, plan.owner, pod)):
            return True
        await self._restore_identity(plan, pod)
        return False

    async def _restore_identity(self, plan: Plan, pod: Obj) -> None:
        """Give a pod back the labels that tell its name and number."""
        meta = pod["metadata"]
        if (meta.get("labels") or {}).get(POD_NAME) == meta["name"]:
            return
        labels = {POD_NAME: meta["name"], POD_INDEX: str(ordinal_of(pod))}
        await self.pods.informer.patch(pod, {"metadata": {"uid": meta["uid"], "labels": labels}})
        await self.tell(plan.owner, "SuccessfulUpdate", name=meta["name"])

    async def _create(self, plan: Plan, ordinal: int) -> None:
        owner, revision = plan.owner, self._revision_for(plan, ordinal)
        pod = pod_of(owner, revision, ordinal)
        name = pod["metadata"]["name"]
        try:
            await self.claims.create(owner, ordinal, name)
            made = await self.pods.informer.create(pod)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                await self.tell(owner, "FailedCreate", name=name, error=error.message)
            raise
        plan.replicas[ordinal] = made
        await self.tell(owner, "SuccessfulCreate", name=name)

    def _revision_for(self, plan: Plan, ordinal: int) -> Obj:
        """Return the revision that a missing pod is made of: the old one below the partition of an update."""
        owner, strategy = plan.owner, plan.owner["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return plan.update
        rolling = strategy.get("rollingUpdate")
        old = owner.get("status", {}).get("currentReplicas", 0) if rolling is None else rolling.get("partition", 0)
        return plan.current if ordinal < start_of(owner) + old else plan.update

    def _first_unavailable(self, plan: Plan) -> Obj | None:
        living = [pod for pod in plan.replicas.values() if pod is not None]
        for pod in (*living, *reversed(plan.condemned)):
            if is_ending(pod) or not pods.is_available(self, plan.owner, pod):
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
                await self.remove(plan.owner, self.pods.informer, pod)
                return
            if is_ending(pod) or not pods.is_available(self, plan.owner, pod):
                return

    async def _report(self, owner: Obj, plan: Plan) -> None:
        owned = [pod for pod in self.pods.of(owner) if _is_member(owner, pod)]
        staying = [pod for pod in owned if not is_ending(pod)]
        current, update = plan.current["metadata"]["name"], plan.update["metadata"]["name"]
        ready = [pod for pod in owned if pods.phase_of(pod) == "Running" and pods.ready_since(pod) is not None]
        counts = {
            "replicas": len(owned),
            "readyReplicas": len(ready),
            "currentReplicas": sum(revision_of(pod) == current for pod in staying),
            "updatedReplicas": sum(revision_of(pod) == update for pod in staying),
            "availableReplicas": sum(pods.is_available(self, plan.owner, pod) for pod in ready),
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
        if {name: value for name, value in owner.get("status", {}).items() if name != "conditions"} != status:
            await self.write_status(self.own, owner, status, retries=3)
        await self.history.trim(owner, {current, update, *(revision_of(pod) for pod in owned)})

    @staticmethod
    def _is_updated(owner: Obj, counts: dict[str, int]) -> bool:
        rolling = owner["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        numbers = {counts[name] for name in ("replicas", "readyReplicas", "updatedReplicas")}
        return rolling and numbers == {owner["spec"]["replicas"]}


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


def ordinal_of(pod: Obj) -> int:
    """Return the number at the end of a pod's name; -1 without one."""
    number = pod["metadata"]["name"].rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _is_member(owner: Obj, pod: Obj) -> bool:
    """Whether a pod's name is one of the set's."""
    return bool(pod["metadata"]["name"].rpartition("-")[0] == owner["metadata"]["name"]) and ordinal_of(pod) >= 0


def revision_of(pod: Obj) -> str:
    """Return the name of the revision that a pod was made of."""
    return str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, ""))
