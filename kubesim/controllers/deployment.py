"""Deployments: ReplicaSets by revision, rolled over within maxSurge and maxUnavailable."""

from __future__ import annotations

import math
from typing import Any

from kubesim.controllers.base import Context, Controller, controller_of, delete_if_there, is_ending, owner_reference
from kubesim.controllers.history import safe_hash
from kubesim.errors import Obj
from kubesim.times import parse, stamp

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class DeploymentController(Controller):
    """Keeps one ReplicaSet per template and moves replicas to the newest."""

    source = "deployment-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = self.informers["deployments.apps"]
        self.sets = self.informers["replicasets.apps"]
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch Deployments and their ReplicaSets."""
        self.watch_owned(self.sets, "Deployment")
        self.watch_own(self.deployments)
        self.pods.add_handler(self._pod_gone)

    def _pod_gone(self, old: Obj | None, new: Obj | None) -> None:
        """Recreate waits for the last old pod."""
        owner = controller_of(old) if old is not None and new is None else None
        if old is None or owner is None or owner["kind"] != "ReplicaSet":
            return
        rs = self.sets.get(old["metadata"]["namespace"], owner["name"])
        deployment = controller_of(rs) if rs is not None else None
        if deployment is not None:
            self.queue.add(f"{old['metadata']['namespace']}/{deployment['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Roll a deployment one step further and report."""
        deployment = self.deployments.get(namespace, name)
        if deployment is None:
            return
        if not is_ending(deployment):
            if not deployment["spec"].get("paused"):
                deployment = await self._roll(deployment)
            else:
                await self._scale_paused(deployment)
        await self._report(deployment)

    def owned(self, deployment: Obj) -> list[Obj]:
        """Return the ReplicaSets of a deployment, oldest revision first."""
        return sorted(self.sets.by("controller", deployment["metadata"]["uid"]), key=revision_of)

    def newest(self, deployment: Obj) -> Obj | None:
        """Return the ReplicaSet of the current template."""
        wanted = _bare(deployment["spec"]["template"])
        return next((rs for rs in self.owned(deployment) if _bare(rs["spec"]["template"]) == wanted), None)

    async def _roll(self, deployment: Obj) -> Obj:
        deployment = await self._ensure_newest(deployment)
        newest = self.newest(deployment)
        assert newest is not None
        old = [rs for rs in self.owned(deployment) if rs["metadata"]["uid"] != newest["metadata"]["uid"]]
        if deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            await self._recreate(deployment, newest, old)
        else:
            await self._scale_up(deployment, newest, old)
            await self._scale_down(deployment, newest, old)
        await self._clean(deployment, old)
        return deployment

    async def _scale_paused(self, deployment: Obj) -> None:
        """A paused deployment is not rolled over, but follows its replicas."""
        active = [rs for rs in self.owned(deployment) if rs["spec"]["replicas"]]
        if len(active) == 1:
            await self._scale(deployment, active[0], deployment["spec"]["replicas"])

    async def _ensure_newest(self, deployment: Obj) -> Obj:
        """Create the ReplicaSet of the template, or give it the highest revision if the template came back."""
        newest = self.newest(deployment)
        others = [rs for rs in self.owned(deployment) if newest is None or queue_uid(rs) != queue_uid(newest)]
        revision = str(max((revision_of(rs) for rs in others), default=0) + 1)
        if newest is None:
            newest = await self._create(deployment, revision)
        elif revision_of(newest) < int(revision):
            await self._annotate(self.sets.resource, newest, {REVISION: revision})
        current = self.newest(deployment)
        assert current is not None
        wanted = current["metadata"]["annotations"][REVISION]
        if (deployment["metadata"].get("annotations") or {}).get(REVISION) != wanted:
            return await self._annotate(self.deployments.resource, deployment, {REVISION: wanted})
        return deployment

    async def _annotate(self, resource: str, obj: Obj, annotations: dict[str, str]) -> Obj:
        meta = obj["metadata"]
        patch = {"metadata": {"annotations": annotations}}
        answer = await self.client.patch(resource, meta["name"], meta["namespace"], patch)
        self.informers[resource].note(answer)
        return answer

    async def _create(self, deployment: Obj, revision: str) -> Obj:
        template, meta = deployment["spec"]["template"], deployment["metadata"]
        digest = template_hash(template, deployment.get("status", {}).get("collisionCount", 0))
        labels = {**(template["metadata"].get("labels") or {}), HASH: digest}
        annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in (LAST_APPLIED, REVISION)}
        selector = deployment["spec"]["selector"]
        replicas = self._first_replicas(deployment)
        made = await self.client.create(
            self.sets.resource,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {
                    "name": f"{meta['name']}-{digest}",
                    "namespace": meta["namespace"],
                    "labels": labels,
                    "annotations": {**annotations, **self._bounds(deployment), REVISION: revision},
                    "ownerReferences": [owner_reference(deployment)],
                },
                "spec": {
                    "replicas": replicas,
                    "minReadySeconds": deployment["spec"].get("minReadySeconds", 0),
                    "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
                    "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
                },
            },
            namespace=meta["namespace"],
        )
        self.sets.note(made, created=True)
        if replicas:
            await self._tell_scaled(deployment, made, 0, replicas)
        return made

    def _first_replicas(self, deployment: Obj) -> int:
        """How many replicas a new ReplicaSet begins with."""
        wanted = int(deployment["spec"]["replicas"])
        held = sum(int(rs["spec"]["replicas"]) for rs in self.owned(deployment))
        if deployment["spec"].get("strategy", {}).get("type") == "Recreate":
            return 0 if held else wanted
        return max(0, min(wanted, wanted + bounds(deployment)[0] - held))

    def _bounds(self, deployment: Obj) -> dict[str, str]:
        wanted = int(deployment["spec"]["replicas"])
        return {DESIRED: str(wanted), MAXIMUM: str(wanted + bounds(deployment)[0])}

    async def _recreate(self, deployment: Obj, newest: Obj, old: list[Obj]) -> None:
        for rs in old:
            await self._scale(deployment, rs, 0)
        if not any(self.pods.by("controller", queue_uid(rs)) for rs in old):
            await self._scale(deployment, newest, deployment["spec"]["replicas"])

    async def _scale_up(self, deployment: Obj, newest: Obj, old: list[Obj]) -> None:
        wanted = int(deployment["spec"]["replicas"])
        held = newest["spec"]["replicas"] + sum(rs["spec"]["replicas"] for rs in old)
        room = wanted + bounds(deployment)[0] - held
        if newest["spec"]["replicas"] > wanted:
            await self._scale(deployment, newest, wanted)
        elif room > 0:
            await self._scale(deployment, newest, min(wanted, newest["spec"]["replicas"] + room))

    async def _scale_down(self, deployment: Obj, newest: Obj, old: list[Obj]) -> None:
        """Take away old replicas: those that are not ready first, then as many as may be unavailable."""
        floor = int(deployment["spec"]["replicas"]) - bounds(deployment)[1]
        current = self.sets.get(newest["metadata"]["namespace"], newest["metadata"]["name"]) or newest
        held = current["spec"]["replicas"] + sum(rs["spec"]["replicas"] for rs in old)
        waiting = current["spec"]["replicas"] - _available(current)
        spare = held - floor - waiting
        spare -= await self._scale_down_unhealthy(deployment, old, spare)
        free = sum(_available(rs) for rs in [*old, current]) - floor
        for rs in self._current(old):
            cut = min(rs["spec"]["replicas"], free, spare)
            if cut > 0:
                await self._scale(deployment, rs, rs["spec"]["replicas"] - cut)
                free, spare = free - cut, spare - cut

    async def _scale_down_unhealthy(self, deployment: Obj, old: list[Obj], spare: int) -> int:
        done = 0
        for rs in old:
            unhealthy = rs["spec"]["replicas"] - _available(rs)
            cut = min(unhealthy, spare - done)
            if cut > 0:
                await self._scale(deployment, rs, rs["spec"]["replicas"] - cut)
                done += cut
        return done

    def _current(self, sets: list[Obj]) -> list[Obj]:
        return [self.sets.get(rs["metadata"]["namespace"], rs["metadata"]["name"]) or rs for rs in sets]

    async def _scale(self, deployment: Obj, rs: Obj, replicas: int) -> None:
        before = rs["spec"]["replicas"]
        notes = rs["metadata"].get("annotations") or {}
        if before == replicas and self._bounds(deployment).items() <= notes.items():
            return
        meta = rs["metadata"]
        patch = {"metadata": {"annotations": self._bounds(deployment)}, "spec": {"replicas": replicas}}
        self.sets.note(await self.client.patch(self.sets.resource, meta["name"], meta["namespace"], patch))
        if before != replicas:
            await self._tell_scaled(deployment, rs, before, replicas)

    async def _tell_scaled(self, deployment: Obj, rs: Obj, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {rs['metadata']['name']} from {before} to {after}"
        await self.recorder.normal(deployment, "ScalingReplicaSet", text)

    async def _clean(self, deployment: Obj, old: list[Obj]) -> None:
        """Delete old, empty ReplicaSets beyond the history limit."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        status = [rs for rs in self._current(old) if not rs["spec"]["replicas"] and not rs["status"].get("replicas")]
        for rs in status[: max(0, len(status) - limit)]:
            if not is_ending(rs):
                await delete_if_there(self, self.sets.resource, rs)

    async def _report(self, deployment: Obj) -> None:
        sets = self.owned(deployment)
        newest = self.newest(deployment)
        totals = {
            "replicas": sum(rs.get("status", {}).get("replicas", 0) for rs in sets),
            "updatedReplicas": newest.get("status", {}).get("replicas", 0) if newest else 0,
            "readyReplicas": sum(rs.get("status", {}).get("readyReplicas", 0) for rs in sets),
            "availableReplicas": sum(_available(rs) for rs in sets),
        }
        totals["unavailableReplicas"] = max(
            0, sum(rs["spec"]["replicas"] for rs in sets) - totals["availableReplicas"]
        )
        status: Obj = {name: count for name, count in totals.items() if count}
        status["observedGeneration"] = deployment["metadata"].get("generation", 1)
        status["conditions"] = self._conditions(deployment, newest, totals)
        await self.write_status(self.deployments, deployment, status)

    def _conditions(self, deployment: Obj, newest: Obj | None, totals: dict[str, int]) -> list[Obj]:
        floor = int(deployment["spec"]["replicas"]) - bounds(deployment)[1]
        if totals["availableReplicas"] >= floor:
            available = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            text = "Deployment does not have minimum availability."
            available = ("False", "MinimumReplicasUnavailable", text)
        conditions = [self._condition(deployment, "Available", *available)]
        if newest is not None:
            conditions.append(self._progressing(deployment, newest, totals))
        failing = [c for rs in self.owned(deployment) for c in rs.get("status", {}).get("conditions") or ()]
        for failure in failing[:1]:
            conditions.append(
                self._condition(deployment, "ReplicaFailure", "True", failure["reason"], failure["message"])
            )
        return conditions

    def _progressing(self, deployment: Obj, newest: Obj, totals: dict[str, int]) -> Obj:
        wanted, name = int(deployment["spec"]["replicas"]), newest["metadata"]["name"]
        old = _find(deployment, "Progressing")
        halted = self._halted(deployment, old)
        if halted is not None:
            return halted
        complete = totals["updatedReplicas"] == totals["availableReplicas"] == totals["replicas"] == wanted
        if complete:
            text = f'ReplicaSet "{name}" has successfully progressed.'
            return self._condition(deployment, "Progressing", "True", "NewReplicaSetAvailable", text)
        if old is not None and not self._moved(deployment, totals):
            limit = deployment["spec"].get("progressDeadlineSeconds", 600)
            waited = (self.clock.now() - parse(old["lastUpdateTime"])).total_seconds()
            if old["reason"] != "NewReplicaSetAvailable":
                if waited >= limit:
                    text = f'ReplicaSet "{name}" has timed out progressing.'
                    return self._condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", text)
                self.queue.add_after(
                    f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}", limit - waited
                )
            return old
        if old is None:
            text = f'Created new replica set "{name}"'
            return self._condition(deployment, "Progressing", "True", "NewReplicaSetCreated", text)
        text = f'ReplicaSet "{name}" is progressing.'
        return self._condition(deployment, "Progressing", "True", "ReplicaSetUpdated", text)

    def _halted(self, deployment: Obj, old: Obj | None) -> Obj | None:
        """Return the condition of a paused deployment, and of one that has just been resumed."""
        reason = old["reason"] if old is not None else ""
        if deployment["spec"].get("paused"):
            text = "Deployment is paused"
            paused = self._condition(deployment, "Progressing", "Unknown", "DeploymentPaused", text)
            return old if reason == "ProgressDeadlineExceeded" else paused
        if reason != "DeploymentPaused":
            return None
        self.queue.add_after(f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}", 0)
        return self._condition(deployment, "Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed")

    def _moved(self, deployment: Obj, totals: dict[str, int]) -> bool:
        """Whether the roll-out is further than the last report says."""
        before = deployment.get("status", {})
        fallen = (
            before.get("replicas", 0) - before.get("updatedReplicas", 0)
            > totals["replicas"] - totals["updatedReplicas"]
        )
        names = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return fallen or any(totals[name] > before.get(name, 0) for name in names)

    def _condition(self, deployment: Obj, kind: str, status: str, reason: str, message: str) -> Obj:
        now = stamp(self.clock.now())
        old = _find(deployment, kind)
        moving = kind == "Progressing" and reason == "ReplicaSetUpdated"
        if (
            old is not None
            and not moving
            and (old["status"], old["reason"], old["message"]) == (status, reason, message)
        ):
            return old
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
        times = {"lastUpdateTime": now, "lastTransitionTime": since}
        return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def _find(deployment: Obj, kind: str) -> Obj | None:
    conditions: list[Obj] = deployment.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), None)


def queue_uid(obj: Obj) -> str:
    """Return the uid."""
    return str(obj["metadata"]["uid"])


def revision_of(rs: Obj) -> int:
    """Return the revision annotation as a number; 0 without one."""
    return int((rs["metadata"].get("annotations") or {}).get(REVISION, "0"))


def bounds(deployment: Obj) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) in pods; if both round to nothing, one may be unavailable."""
    spec = deployment["spec"]
    if spec.get("strategy", {}).get("type") == "Recreate":
        return 0, int(spec["replicas"])
    rolling = spec.get("strategy", {}).get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), spec["replicas"], math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), spec["replicas"], math.floor)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, int(spec["replicas"]))


def _share(value: Any, replicas: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(int(value[:-1]) * replicas / 100))
    return int(value)


def template_hash(template: Obj, collisions: int = 0) -> str:
    """Return a name part for a pod template, in the letters that upstream uses."""
    return safe_hash([_bare(template), collisions])


def _bare(template: Obj) -> Obj:
    """A template without the hash label, for comparing."""
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in meta.items() if key != "creationTimestamp" and value}
    return {**template, "metadata": {**kept, "labels": labels}}


def _available(rs: Obj) -> int:
    return int(rs.get("status", {}).get("availableReplicas", 0))
