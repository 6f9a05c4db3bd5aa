"""The claims of a StatefulSet's pods: made before the pod, and kept after it."""

from __future__ import annotations

from kubesim.controllers.base import Controller, is_ending
from kubesim.errors import ApiError, Obj

CLAIMS = "persistentvolumeclaims"


class Claims:
    """The claims of one controller's sets."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._claims = controller.informers[CLAIMS]

    async def create(self, owner: Obj, ordinal: int, pod: str) -> None:
        """Create what is missing of a pod's claims, and say so in events. Raises what holds the pod up."""
        namespace, set_name = owner["metadata"]["namespace"], owner["metadata"]["name"]
        for template in owner["spec"].get("volumeClaimTemplates") or ():
            claim = claim_of(owner, template, ordinal)
            name = claim["metadata"]["name"]
            there = self._claims.get(namespace, name)
            if there is not None:
                if is_ending(there):
                    raise ApiError(409, "Conflict", f"pvc {name} is being deleted")
                continue
            try:
                await self._claims.create(claim)
            except ApiError as error:
                failure = f"failed to create PVC {name}: {error.message}"
                if error.reason != "AlreadyExists":
                    text = (
                        f"create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error.message}"
                    )
                    await self._controller.recorder.warning(owner, "FailedCreate", text)
                raise ApiError(error.code, error.reason, failure) from error
            text = f"create Claim {name} Pod {pod} in StatefulSet {set_name} success"
            await self._controller.recorder.normal(owner, "SuccessfulCreate", text)


def claim_name(owner: Obj, template: Obj, ordinal: int) -> str:
    """Return the name of the claim of one template and one pod."""
    return f"{template['metadata']['name']}-{owner['metadata']['name']}-{ordinal}"


def claim_of(owner: Obj, template: Obj, ordinal: int) -> Obj:
    """Return the claim of one template and one pod."""
    source = template["metadata"]
    labels = {**(source.get("labels") or {}), **(owner["spec"]["selector"].get("matchLabels") or {})}
    metadata: Obj = {"name": claim_name(owner, template, ordinal), "namespace": owner["metadata"]["namespace"]}
    metadata |= {"labels": labels} if labels else {}
    metadata |= {"annotations": dict(source["annotations"])} if source.get("annotations") else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": dict(template["spec"])}
