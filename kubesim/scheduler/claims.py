"""What the scheduler knows of claims of devices (dynamic resource allocation), and what it gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kubesim.controllers.ephemeral import is_for
from kubesim.controllers.resourceclaims import CLAIMS, FINALIZER
from kubesim.errors import Obj
from kubesim.informer import Informers
from kubesim.scheduler import devices
from kubesim.scheduler.state import NodeState
from kubesim.scheduler.terms import matches_term

CLASSES, SLICES = "deviceclasses.resource.k8s.io", "resourceslices.resource.k8s.io"
MOST_USERS = 256
IN_USE = "resourceclaim in use"
NOT_THERE = "resourceclaim not available on the node"
NOT_ALL = "cannot allocate all claims"


class DeviceClaims:
    """The claims of devices and the device classes of a cluster."""

    def __init__(self, informers: Informers) -> None:
        self._claims = informers[CLAIMS]
        self._classes = informers[CLASSES]
        self._slices = informers[SLICES]

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` whenever anything changes."""
        for informer in (self._claims, self._classes, self._slices):
            informer.add_handler(lambda old, new: tell())

    def complete(self, pod: Obj) -> bool:
        """Tell whether all that a pod claims is there; until then nobody looks at the pod, and nobody says so."""
        return all(claim is not None and _usable(claim, pod, made) for claim, made in self._of(pod))

    def hindrance(self, pod: Obj) -> str:
        """Return why a pod can be on no node at all; empty where its claims hold nothing up."""
        for claim, _ in self._of(pod):
            if claim is None:
                continue
            users = (claim.get("status") or {}).get("reservedFor") or ()
            if _allocation(claim) is None:
                if why := self._lacking(claim):
                    return why
            elif len(users) >= MOST_USERS and not any(user["uid"] == pod["metadata"]["uid"] for user in users):
                return IN_USE
        return ""

    def _lacking(self, claim: Obj) -> str:
        for name, device_class in _requests(claim):
            if self._classes.get("", device_class) is None:
                return f"request {name}: device class {device_class} does not exist"
        return ""

    def refusal(self, pod: Obj, node: NodeState) -> str:
        """Return why a pod's claims keep it from a node: what they got is elsewhere, or there is nothing to get."""
        found = [claim for claim, _ in self._of(pod) if claim is not None]
        allocations = [_allocation(claim) for claim in found]
        if any(allocation is not None and not _reaches(allocation, node) for allocation in allocations):
            return NOT_THERE
        return NOT_ALL if None in allocations and self._choice(found, node) is None else ""

    async def choose(self, pod: Obj, node: NodeState) -> None:
        """Give a pod's claims what there is for them on a node, and keep it for the pod."""
        found = [claim for claim, _ in self._of(pod) if claim is not None]
        for claim, allocation in (self._choice(found, node) or []) if found else ():
            status, meta = claim.get("status") or {}, claim["metadata"]
            users = status.get("reservedFor") or []
            if any(user["uid"] == pod["metadata"]["uid"] for user in users):
                continue
            if FINALIZER not in (meta.get("finalizers") or ()):
                wanted = {"finalizers": [*(meta.get("finalizers") or ()), FINALIZER]}
                await self._claims.patch(claim, {"metadata": {"uid": meta["uid"], **wanted}})
            user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            kept = {"allocation": allocation, "reservedFor": [*users, user]}
            patch = {"metadata": {"uid": meta["uid"]}, "status": kept}
            await self._claims.patch(claim, patch, patch_type="merge", subresource="status")

    def _choice(self, claims: list[Obj], node: NodeState) -> list[tuple[Obj, Obj]] | None:
        """Return what each claim has or gets; None where there is not enough for all."""
        gone = devices.taken(self._claims.items())
        free = [device for device in devices.on_node(self._slices.items(), node) if device.key not in gone]
        classes = {found["metadata"]["name"]: found for found in self._classes.items()}
        found: list[tuple[Obj, Obj]] = []
        for claim in claims:
            allocation = _allocation(claim) or devices.allocate(claim, node, free, classes)
            if allocation is None:
                return None
            found.append((claim, allocation))
        return found

    def _of(self, pod: Obj) -> Iterator[tuple[Obj | None, bool]]:
        """Yield the claims of a pod, and whether each was made for it alone."""
        known = {entry["name"]: entry for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        for entry in pod["spec"].get("resourceClaims") or ():
            made, name = not entry.get("resourceClaimName"), entry.get("resourceClaimName") or ""
            if made and entry["name"] in known:
                name = known[entry["name"]].get("resourceClaimName") or ""
                if not name:
                    continue
            yield self._claims.get(pod["metadata"]["namespace"], name), made


def _usable(claim: Obj, pod: Obj, made: bool) -> bool:
    return not claim["metadata"].get("deletionTimestamp") and (not made or is_for(claim, pod))


def _allocation(claim: Obj) -> Obj | None:
    found: Obj | None = (claim.get("status") or {}).get("allocation")
    return found


def _requests(claim: Obj) -> Iterable[tuple[str, str]]:
    """Yield the name and the device class of each request, also of those that are one of several."""
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        if "exactly" in request:
            yield request["name"], request["exactly"].get("deviceClassName", "")
        for choice in request.get("firstAvailable") or ():
            yield f"{request['name']}/{choice['name']}", choice.get("deviceClassName", "")


def _reaches(allocation: Obj, node: NodeState) -> bool:
    selector = allocation.get("nodeSelector")
    return selector is None or any(matches_term(term, node) for term in selector.get("nodeSelectorTerms") or ())
