"""Deployments: ReplicaSets by revision, rolled over within maxSurge and maxUnavailable."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.conditions import condition_of
from kubesim.controllers import deployment_sets, pods
from kubesim.controllers.base import Context, Keeper, controller_of, is_ending, owner_reference, queue_key
from kubesim.controllers.deployment_sets import (
    HASH,
    REVISION,
    active,
    annotations_of,
    bounds,
    by_age,
    counted,
    is_rolling,
    newest_notes,
    newest_size,
    proportional_sizes,
    replicas_of,
    revision_of,
    same_template,
    size_notes,
    template_hash,
    total,
    was_resized,
)
from kubesim.controllers.owned import Owned
from kubesim.errors import ApiError, Obj

NO_LIMIT = 2**31 - 1
LONGEST_NAME = 253


@dataclass
class Rollout:
    """One look at a deployment and its ReplicaSets, the old ones oldest first."""

    deployment: Obj
    old: list[Obj]
    newest: Obj | None

    @property
    def sets(self) -> list[Obj]:
        """All ReplicaSets."""
        return [*self.old, *([self.newest] if self.newest is not None else [])]


class DeploymentController(Keeper):
    """Keeps one ReplicaSet per template and moves replicas to the newest."""

    source = "deployment-controller"
    resource = "deployments.apps"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = Owned(self, "replicasets.apps")
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch Deployments and their ReplicaSets."""
        self.sets.listen()
        super().listen()
        self.pods.add_handler(self._pod_gone)

    def _pod_gone(self, old: Obj | None, new: Obj | None) -> None:
        """Recreate waits for the last old pod."""
        owner = controller_of(old) if old is not None and new is None else None
        if old is None or owner is None or owner["kind"] != "ReplicaSet":
            return
        rs = self.sets.informer.get(old["metadata"]["namespace"], owner["name"])
        deployment = controller_of(rs) if rs is not None else None
        if deployment is not None:
            self.queue.add(f"{old['metadata']['namespace']}/{deployment['name']}")

    async def look_after(self, deployment: Obj) -> None:
        """Roll a deployment one step further and report."""
        if not deployment["spec"].get("selector"):
            await self.tell(deployment, "SelectingAll")
            return
        sets = sorted(await self.sets.claim(deployment), key=by_age)
        if not is_ending(deployment):
            deployment = await self._note_pause(deployment)
        look = await self._look(deployment, sets)
        if is_ending(deployment):
            await self._report_numbers(look)
        elif deployment["spec"].get("paused"):
            await self._resize(look)
            await self._clean(look)
            await self._report_numbers(look)
        elif any(was_resized(deployment, rs) for rs in active(look.sets)):
            await self._resize(look)
            await self._report_numbers(look)
        else:
            await (self._roll(look) if is_rolling(deployment) else self._recreate(look))
            await self._report(look)

    # The newest ReplicaSet.

    async def _look(self, deployment: Obj, sets: list[Obj]) -> Rollout:
        newest = next(
            (rs for rs in sets if same_template(rs["spec"]["template"], deployment["spec"]["template"])), None
        )
        look = Rollout(deployment, [rs for rs in sets if rs is not newest], newest)
        if newest is not None:
            await self._refresh(look, newest)
        return look

    async def _refresh(self, look: Rollout, newest: Obj) -> None:
        """Give the newest ReplicaSet the highest revision and its deployment's annotations, then note it above."""
        notes = newest_notes(look.deployment, newest, self._next_revision(look))
        wait = look.deployment["spec"].get("minReadySeconds", 0)
        if notes != annotations_of(newest) or newest["spec"].get("minReadySeconds", 0) != wait:
            patch = {"metadata": {"annotations": notes}, "spec": {"minReadySeconds": wait}}
            look.newest = await self.sets.informer.patch(newest, patch)
            return
        text = f'Found new replica set "{newest["metadata"]["name"]}"'
        await self._note_revision(look, notes.get(REVISION, ""), "FoundNewReplicaSet", text)

    def _next_revision(self, look: Rollout) -> int:
        return max((revision_of(rs) for rs in look.old), default=0) + 1

    async def _note_revision(self, look: Rollout, revision: str, reason: str, text: str) -> None:
        """Note the revision in the deployment, and the first time (or a new ReplicaSet) as its progress."""
        deployment, status = look.deployment, dict(look.deployment.get("status", {}))
        known = bool(condition_of(status, "Progressing")) and reason == "FoundNewReplicaSet"
        changed = annotations_of(deployment).get(REVISION) != revision
        if deployment_sets.has_deadline(deployment) and not known:
            now = self.clock.now()
            changed |= deployment_sets.set_condition(status, now, "Progressing", "True", reason, text)
        if changed:
            notes = {**annotations_of(deployment), REVISION: revision}
            noted = {**deployment, "metadata": {**deployment["metadata"], "annotations": notes}}
            look.deployment = await self.write_status(self.own, noted, status)

    async def _ensure_newest(self, look: Rollout) -> Obj:
        """Create the ReplicaSet of the template unless it is there."""
        if look.newest is not None:
            return look.newest
        wanted = self._newest_of(look)
        name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]
        try:
            made = await self.sets.informer.create(wanted)
        except ApiError as error:
            await self._not_created(look, name, error)
            raise
        if replicas:
            await self.tell(look.deployment, "ScalingReplicaSet", way="up", name=name, before=0, after=replicas)
        look.newest = made
        text = f'Created new replica set "{name}"'
        await self._note_revision(look, wanted["metadata"]["annotations"][REVISION], "NewReplicaSetCreated", text)
        return made

    def _newest_of(self, look: Rollout) -> Obj:
        deployment = look.deployment
        template, meta, spec = deployment["spec"]["template"], deployment["metadata"], deployment["spec"]
        digest = template_hash(template, deployment.get("status", {}).get("collisionCount") or 0)
        labels = {**(template["metadata"].get("labels") or {}), HASH: digest}
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: digest}}
        metadata = {
            "name": f"{meta['name'][: LONGEST_NAME - 1 - len(digest)]}-{digest}",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(deployment)],
        }
        notes = newest_notes(deployment, {"metadata": {}}, self._next_revision(look)) | size_notes(deployment)
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": metadata | {"annotations": notes},
            "spec": {
                "replicas": newest_size(deployment, look.old, 0),
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": selector,
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        }

    async def _not_created(self, look: Rollout, name: str, error: ApiError) -> None:
        """Take another name where a stranger has this one; else say why there is no new ReplicaSet."""
        deployment, status = look.deployment, dict(look.deployment.get("status", {}))
        if error.reason == "AlreadyExists":
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1
        elif pods.TERMINATING not in error.message:
            text = f'Failed to create new replica set "{name}": {error.message}'
            reason, now = "ReplicaSetCreateError", self.clock.now()
            if deployment_sets.has_deadline(deployment):
                deployment_sets.set_condition(status, now, "Progressing", "False", reason, text)
            await self.recorder.warning(deployment, reason, text)
        await self.write_status(self.own, deployment, status)

    # Sizes.

    async def _resize(self, look: Rollout) -> None:
        """Follow a change of the deployment's size: one ReplicaSet takes it all, several their shares."""
        living = active(look.sets)
        if len(living) <= 1:
            latest = [*living, *([look.newest] if look.newest is not None else []), *reversed(look.old)]
            if latest and latest[0]["spec"]["replicas"] != replicas_of(look.deployment):
                await self._scale(look, latest[0], replicas_of(look.deployment))
        elif look.newest is not None and self._is_saturated(look.deployment, look.newest):
            for rs in active(look.old):
                await self._scale(look, rs, 0)
        elif is_rolling(look.deployment):
            for rs, size in proportional_sizes(look.deployment, living):
                await self._scale(look, rs, size)

    @staticmethod
    def _is_saturated(deployment: Obj, rs: Obj) -> bool:
        """Whether a ReplicaSet alone is all that the deployment wants."""
        numbers = {replicas_of(deployment), rs["spec"]["replicas"], counted([rs], "availableReplicas")}
        return len(numbers) == 1 and not was_resized(deployment, rs)

    async def _recreate(self, look: Rollout) -> None:
        """Take all old pods away; start the new ones when the last of them is gone."""
        if active(look.old):
            for rs in active(look.old):
                await self._scale(look, rs, 0)
            return
        left = (pods.phase_of(pod) for rs in look.old for pod in self.pods.by("controller", rs["metadata"]["uid"]))
        if counted(look.old, "replicas") or any(phase not in pods.ENDED for phase in left):
            return
        newest = await self._ensure_newest(look)
        if newest["spec"]["replicas"] != replicas_of(look.deployment):
            await self._scale(look, newest, replicas_of(look.deployment))
        await self._clean_when_complete(look)

    async def _roll(self, look: Rollout) -> None:
        """Take one step: more new pods, or else fewer old ones."""
        newest, wanted = await self._ensure_newest(look), replicas_of(look.deployment)
        size = int(newest["spec"]["replicas"])
        if size != wanted:
            fresh = wanted if size > wanted else newest_size(look.deployment, look.sets, size)
            if fresh != size:
                await self._scale(look, newest, fresh)
                return
        if not await self._scale_down(look, newest):
            await self._clean_when_complete(look)

    async def _scale_down(self, look: Rollout, newest: Obj) -> bool:
        """Take away old replicas: those that are not available first, then as many as may be missing."""
        floor = replicas_of(look.deployment) - bounds(look.deployment)[1]
        waiting = newest["spec"]["replicas"] - counted([newest], "availableReplicas")
        spare = total(look.sets) - floor - waiting
        if not total(look.old) or spare <= 0:
            return False
        sizes = {rs["metadata"]["name"]: int(rs["spec"]["replicas"]) for rs in look.old}
        free = counted(look.sets, "availableReplicas") - floor
        cuts = dict.fromkeys(sizes, 0)
        for rs in active(look.old):
            name, missing = rs["metadata"]["name"], rs["spec"]["replicas"] - counted([rs], "availableReplicas")
            if spare and missing < 0:
                return False  # what it says of its pods is from before it was scaled
            cuts[name] = min(spare, missing)
            spare -= cuts[name]
        for name, size in sizes.items():
            more = max(0, min(size - cuts[name], free))
            cuts[name], free = cuts[name] + more, free - more
        for rs in active(look.old):
            name = rs["metadata"]["name"]
            if cuts[name]:
                await self._scale(look, rs, sizes[name] - cuts[name])
        return any(cuts.values())

    async def _scale(self, look: Rollout, rs: Obj, replicas: int) -> None:
        before, notes = rs["spec"]["replicas"], size_notes(look.deployment)
        if before == replicas and notes.items() <= annotations_of(rs).items():
            return
        await self.sets.informer.patch(rs, {"metadata": {"annotations": notes}, "spec": {"replicas": replicas}})
        if before != replicas:
            way, name = "up" if replicas > before else "down", rs["metadata"]["name"]
            await self.tell(look.deployment, "ScalingReplicaSet", way=way, name=name, before=before, after=replicas)

    # History.

    async def _clean_when_complete(self, look: Rollout) -> None:
        if deployment_sets.is_complete(look.deployment, look.deployment.get("status", {})):
            await self._clean(look)

    async def _clean(self, look: Rollout) -> None:
        """Delete old, empty ReplicaSets beyond the history limit."""
        limit = look.deployment["spec"].get("revisionHistoryLimit", NO_LIMIT)
        living = sorted((rs for rs in look.old if not is_ending(rs)), key=lambda rs: (revision_of(rs), by_age(rs)))
        for rs in living[: max(0, len(living) - limit)]:
            seen = rs.get("status", {}).get("observedGeneration", 0) >= rs["metadata"].get("generation", 1)
            if seen and not rs["spec"]["replicas"] and not counted([rs], "replicas"):
                await self.sets.informer.delete(rs)

    # Status.

    async def _note_pause(self, deployment: Obj) -> Obj:
        """Note a pause and its end, so that the time of a pause does not count as standing still."""
        status, paused = dict(deployment.get("status", {})), bool(deployment["spec"].get("paused"))
        reason = condition_of(status, "Progressing").get("reason")
        noted = reason == deployment_sets.PAUSED
        if not deployment_sets.has_deadline(deployment) or reason == deployment_sets.TIMED_OUT or paused == noted:
            return deployment
        word = "paused" if paused else "resumed"
        text, now = f"Deployment is {word}", self.clock.now()
        deployment_sets.set_condition(status, now, "Progressing", "Unknown", f"Deployment{word.capitalize()}", text)
        return await self.write_status(self.own, deployment, status)

    async def _report_numbers(self, look: Rollout) -> None:
        status = deployment_sets.count(look.deployment, look.sets, look.newest, self.clock.now())
        await self.write_status(self.own, look.deployment, status)

    async def _report(self, look: Rollout) -> None:
        deployment, now = look.deployment, self.clock.now()
        status = deployment_sets.count(deployment, look.sets, look.newest, now)
        deployment_sets.judge_progress(deployment, status, look.newest, now)
        deployment_sets.copy_failure(status, look.sets, look.newest)
        if status == deployment.get("status"):
            wait = deployment_sets.next_look(deployment, status, now)
            if wait is not None:
                self.queue.add_after(queue_key(deployment), wait)
            return
        await self.write_status(self.own, deployment, status)
