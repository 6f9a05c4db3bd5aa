"""Claims of devices: made from templates for the pods that name these, and freed when nobody uses them any more."""

from __future__ import annotations

from kubesim.controllers.base import Context, Keeper, is_ending, latest, owner_reference, queue_key
from kubesim.controllers.ephemeral import is_for
from kubesim.errors import ApiError, Obj

CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"
FINALIZER = "resource.kubernetes.io/delete-protection"
NOTE = "resource.kubernetes.io/pod-claim-name"
LONGEST = 57
"""How long the beginning of a made claim's name may be."""


class ResourceClaimController(Keeper):
    """Makes the claims that pods want to have made."""

    source = "resource_claim"
    resource = "pods"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.claims, self.templates = self.informers[CLAIMS], self.informers[TEMPLATES]

    def listen(self) -> None:
        """Watch pods that have claims made, and the templates that they may wait for."""
        self.own.add_handler(self._changed)
        self.watch_owned(self.claims, self.kind)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and old is None and any(map(_template, new["spec"].get("resourceClaims") or ())):
            self.queue.add(queue_key(new))

    async def look_after(self, pod: Obj) -> None:
        """Make the claims of one pod that are not there yet, and tell the pod how they are called."""
        wanted = [entry for entry in pod["spec"].get("resourceClaims") or () if _template(entry)]
        if is_ending(pod) or not wanted:
            return
        known = {entry["name"]: entry for entry in pod.get("status", {}).get("resourceClaimStatuses") or ()}
        names = {entry["name"]: await self._provided(pod, entry, known.get(entry["name"])) for entry in wanted}
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in names.items()]
        if statuses != list(known.values()):
            patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"resourceClaimStatuses": statuses}}
            await self.own.patch(pod, patch, patch_type="strategic", subresource="status")

    async def _provided(self, pod: Obj, entry: Obj, known: Obj | None) -> str:
        """Return the name of the claim that a pod has for an entry, made if need be."""
        namespace = pod["metadata"]["namespace"]
        mine = [claim for claim in self.claims.items() if is_for(claim, pod) and _made_for(claim) == entry["name"]]
        if mine:
            return str(mine[0]["metadata"]["name"])
        if known is not None and self.claims.get(namespace, known.get("resourceClaimName", "")) is not None:
            return str(known["resourceClaimName"])
        template = self.templates.get(namespace, _template(entry))
        if template is None:
            what = f'resource claim template "{_template(entry)}"'
            why = f'{what}: resourceclaimtemplate.resource.k8s.io "{_template(entry)}" not found'
            await self.tell(pod, "FailedResourceClaimCreation", claim=entry["name"], why=why)
            raise ApiError(404, "NotFound", why)
        made = await self.claims.create(_claim(pod, entry["name"], template["spec"]))
        return str(made["metadata"]["name"])


class ClaimReleaseController(Keeper):
    """Takes claims from pods that are gone, and devices from claims that nobody uses."""

    source = "resource_claim"
    resource = CLAIMS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch the claims, and the pods that end."""
        self.watch_own(self.own)
        self.pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = latest(old, new)
        if (new is not None and not _is_done(new)) or not pod["spec"].get("resourceClaims"):
            return
        for claim in self.own.items():
            if any(user["uid"] == pod["metadata"]["uid"] for user in _users(claim)):
                self.queue.add(queue_key(claim))

    async def look_after(self, claim: Obj) -> None:
        """Keep of a claim's users those that are there; without any, what it has is free again."""
        users = _users(claim)
        left = [user for user in users if self._is_there(claim, user)]
        allocated = (claim.get("status") or {}).get("allocation") is not None
        meta = claim["metadata"]
        if left != users or (allocated and not left and is_ending(claim)):
            free = {} if left else {"allocation": None, "devices": None}
            patch = {"metadata": {"uid": meta["uid"]}, "status": {"reservedFor": left or None, **free}}
            claim = await self.own.patch(claim, patch, patch_type="merge", subresource="status")
            allocated = (claim.get("status") or {}).get("allocation") is not None
        if not allocated and FINALIZER in (meta.get("finalizers") or ()) and not left and (users or is_ending(claim)):
            kept = [name for name in meta["finalizers"] if name != FINALIZER]
            patch = {"metadata": {"uid": meta["uid"], "finalizers": kept or None}}
            await self.own.patch(claim, patch, patch_type="merge")

    def _is_there(self, claim: Obj, user: Obj) -> bool:
        if user.get("resource") != "pods" or user.get("apiGroup"):
            return True
        pod = self.pods.get(claim["metadata"]["namespace"], user["name"])
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not _is_done(pod)


def _users(claim: Obj) -> list[Obj]:
    found: list[Obj] = (claim.get("status") or {}).get("reservedFor") or []
    return found


def _is_done(pod: Obj) -> bool:
    """Tell whether a pod needs its claims no more."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return ended or (is_ending(pod) and not pod["spec"].get("nodeName"))


def _template(entry: Obj) -> str:
    return str(entry.get("resourceClaimTemplateName") or "")


def _made_for(claim: Obj) -> str:
    return str((claim["metadata"].get("annotations") or {}).get(NOTE, ""))


def _claim(pod: Obj, name: str, template: Obj) -> Obj:
    given, meta = template.get("metadata") or {}, pod["metadata"]
    prefix = f"{meta['name']}-{name}-"
    if len(prefix) > LONGEST:
        shares = (part[: len(part) * LONGEST // len(prefix)] for part in (meta["name"], name))
        prefix = "-".join(shares)
    metadata: Obj = {
        "generateName": prefix,
        "namespace": meta["namespace"],
        "ownerReferences": [owner_reference(pod)],
    }
    metadata["annotations"] = {**(given.get("annotations") or {}), NOTE: name}
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": template["spec"],
    }
