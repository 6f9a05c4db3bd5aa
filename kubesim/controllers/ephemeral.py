"""The claims of generic ephemeral volumes: made for one pod, and owned by it."""

from __future__ import annotations

from kubesim.controllers.base import Context, Keeper, controller_uid, is_ending, owner_reference
from kubesim.controllers.volumes import CLAIMS
from kubesim.errors import ApiError, Obj


class EphemeralVolumeController(Keeper):
    """Makes the claims that pods bring with them."""

    source = "ephemeral_volume"
    resource = "pods"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.claims = self.informers[CLAIMS]

    def listen(self) -> None:
        """Watch pods that have such volumes, and the claims that take their names."""
        self.own.add_handler(self._changed)
        self.watch_owned(self.claims, self.kind)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and old is None and any("ephemeral" in v for v in new["spec"].get("volumes") or ()):
            self.queue.add(f"{new['metadata']['namespace']}/{new['metadata']['name']}")

    async def look_after(self, pod: Obj) -> None:
        """Make the claims of one pod that are not there yet."""
        if is_ending(pod):
            return
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" in volume:
                await self._provide(pod, volume)

    async def _provide(self, pod: Obj, volume: Obj) -> None:
        meta = pod["metadata"]
        name = f"{meta['name']}-{volume['name']}"
        found = self.claims.get(meta["namespace"], name)
        if found is None:
            try:
                await self.claims.create(_claim(pod, volume, name))
            except ApiError as error:
                await self._warn(pod, volume, f"create PVC {name}: {error.message}")
                raise
        elif not is_for(found, pod):
            await self._warn(pod, volume, not_owned(found, pod))
            raise ApiError(409, "Conflict", not_owned(found, pod))

    async def _warn(self, pod: Obj, volume: Obj, why: str) -> None:
        await self.tell(pod, "FailedBinding", volume=volume["name"], why=why)


def is_for(claim: Obj, pod: Obj) -> bool:
    """Tell whether a claim was made for a pod."""
    return controller_uid(claim) == [pod["metadata"]["uid"]]


def not_owned(claim: Obj, pod: Obj) -> str:
    """Return upstream's words for a claim that has the name of a pod's volume by chance."""
    namespace = pod["metadata"]["namespace"]
    names = f"{namespace}/{claim['metadata']['name']}", f"{namespace}/{pod['metadata']['name']}"
    return f"PVC {names[0]} was not created for pod {names[1]} (pod is not owner)"


def _claim(pod: Obj, volume: Obj, name: str) -> Obj:
    template = volume["ephemeral"]["volumeClaimTemplate"]
    given = template.get("metadata") or {}
    metadata: Obj = {key: dict(given[key]) for key in ("labels", "annotations") if given.get(key)}
    metadata |= {"name": name, "namespace": pod["metadata"]["namespace"], "ownerReferences": [owner_reference(pod)]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(template["spec"])}
