"""The claims of a StatefulSet's pods: made before the pod, and kept after it unless the set says otherwise."""

from __future__ import annotations

from kubesim.controllers.base import Controller
from kubesim.errors import ApiError, Obj

CLAIMS = "persistentvolumeclaims"


class Claims:
    """Creates the claims of one controller's sets."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._claims = controller.informers[CLAIMS]

    async def create(self, owner: Obj, ordinal: int, pod: str) -> None:
        """Create what is missing of a pod's claims, and say so in events. Raises what the API answers."""
        namespace, set_name = owner["metadata"]["namespace"], owner["metadata"]["name"]
        for template in owner["spec"].get("volumeClaimTemplates") or ():
            claim = claim_of(owner, template, ordinal)
            name = claim["metadata"]["name"]
            if self._claims.get(namespace, name) is not None:
                continue
            try:
                made = await self._controller.client.create(CLAIMS, claim, namespace=namespace)
            except ApiError as error:
                if error.reason == "AlreadyExists":
                    continue
                text = f"create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error.message}"
                await self._controller.recorder.warning(owner, "FailedCreate", text)
                raise
            self._claims.note(made, created=True)
            text = f"create Claim {name} Pod {pod} in StatefulSet {set_name} success"
            await self._controller.recorder.normal(owner, "SuccessfulCreate", text)


def claim_of(owner: Obj, template: Obj, ordinal: int) -> Obj:
    """Return the claim of one template and one pod; deleted with the set where its policy says so."""
    meta, source = owner["metadata"], template["metadata"]
    labels = {**(source.get("labels") or {}), **(owner["spec"]["selector"].get("matchLabels") or {})}
    metadata: Obj = {"name": f"{source['name']}-{meta['name']}-{ordinal}", "namespace": meta["namespace"]}
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": dict(source["annotations"])} if source.get("annotations") else {}
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenDeleted") == "Delete":
        names = ("apiVersion", "kind")
        reference = {name: owner[name] for name in names} | {"name": meta["name"], "uid": meta["uid"]}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(template["spec"])}
