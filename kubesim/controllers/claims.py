"""The claims of a StatefulSet's pods: made before the pod, and kept after it unless the set says otherwise."""

from __future__ import annotations

from kubesim.controllers.base import Controller, is_ending, owner_reference
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

    async def keep(self, owner: Obj, pod: Obj, ordinal: int, *, leaving: bool) -> None:
        """Let a pod's claims be owned as the retention policy says of a pod that stays, or is ``leaving``."""
        for claim in self._of(owner, ordinal):
            meta, old = claim["metadata"], claim["metadata"].get("ownerReferences") or []
            strange = _has_other_controller(old, owner, pod)
            if strange and not _keeps_all(owner):
                await self._controller.tell(owner, "ConflictingController", name=meta["name"])
            if _is_stale(old, owner) or _is_stale(old, pod):
                continue
            wanted = [ref for ref in old if not _names(ref, owner) and not _names(ref, pod)]
            if not strange:
                wanted += _owners(owner, pod, leaving=leaving)
            if {ref["uid"]: bool(ref.get("controller")) for ref in old} != {
                ref["uid"]: bool(ref.get("controller")) for ref in wanted
            }:
                patch = {"metadata": {"uid": meta["uid"], "ownerReferences": wanted or None}}
                await self._claims.patch(claim, patch)

    def is_stale(self, owner: Obj, ordinal: int) -> bool:
        """Tell whether a missing pod must wait for the claims that go with its predecessor."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{owner['metadata']['name']}-{ordinal}", "uid": ""},
        }
        if _policy(owner, "whenScaled") == "Retain":
            return False
        return any(
            _is_stale(claim["metadata"].get("ownerReferences") or [], pod) for claim in self._of(owner, ordinal)
        )

    def _of(self, owner: Obj, ordinal: int) -> list[Obj]:
        names = [claim_name(owner, template, ordinal) for template in owner["spec"].get("volumeClaimTemplates") or ()]
        found = (self._claims.get(owner["metadata"]["namespace"], name) for name in names)
        return [claim for claim in found if claim is not None]


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


def _policy(owner: Obj, name: str) -> str:
    return str((owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(name, "Retain"))


def _keeps_all(owner: Obj) -> bool:
    return _policy(owner, "whenScaled") == _policy(owner, "whenDeleted") == "Retain"


def _owners(owner: Obj, pod: Obj, *, leaving: bool) -> list[Obj]:
    """Return what a claim goes with: its pod when that is scaled away, else the set, as far as the policy says so."""
    if leaving and _policy(owner, "whenScaled") == "Delete":
        return [owner_reference(pod)]
    return [owner_reference(owner)] if _policy(owner, "whenDeleted") == "Delete" else []


def _names(reference: Obj, obj: Obj) -> bool:
    """Tell whether a reference means an object of this kind and name, also one of another time."""
    kind = (reference["apiVersion"], reference["kind"], reference["name"])
    return kind == (obj["apiVersion"], obj["kind"], obj["metadata"]["name"])


def _is_stale(references: list[Obj], obj: Obj) -> bool:
    return any(_names(ref, obj) and ref["uid"] != obj["metadata"]["uid"] for ref in references)


def _has_other_controller(references: list[Obj], owner: Obj, pod: Obj) -> bool:
    own = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
    return not _keeps_all(owner) and any(ref.get("controller") and ref["uid"] not in own for ref in references)
