"""What the scheduler knows of volumes: whether a pod's claims are there, which nodes reach them, what it chooses."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.controllers.volumes import (
    CLAIMS,
    CLASSES,
    COMPLETED,
    NO_PROVISIONER,
    SELECTED,
    VOLUMES,
    capacity,
    claim_names,
    suits,
)
from kubesim.errors import Obj
from kubesim.informer import Informers
from kubesim.scheduler.state import NodeState
from kubesim.scheduler.terms import matches_term

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_FREE = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Volumes:
    """The claims, volumes and classes of a cluster."""

    def __init__(self, informers: Informers) -> None:
        self._claims = informers[CLAIMS]
        self._volumes = informers[VOLUMES]
        self._classes = informers[CLASSES]

    def on_change(self, tell: Callable[[Obj | None], None]) -> None:
        """Call ``tell`` whenever anything changes, with the claim where a claim comes or changes."""
        self._claims.add_handler(lambda old, new: tell(new) if new is not None else None)
        for informer in (self._volumes, self._classes):
            informer.add_handler(lambda old, new: tell(None))

    def hindrance(self, pod: Obj) -> str:
        """Return why a pod can be on no node at all; empty where its claims hold nothing up."""
        namespace = pod["metadata"]["namespace"]
        unbound = False
        for name, ephemeral in _claims_by_name(pod).items():
            claim = self._claims.get(namespace, name)
            if claim is None:
                text = f'persistentvolumeclaim "{name}" not found'
                waits = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                return waits if ephemeral else text
            if claim.get("status", {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            if claim["metadata"].get("deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            unbound = unbound or (not _bound(claim) and not self._waits(claim))
        return UNBOUND if unbound else ""

    def refusals(self, pod: Obj, node: NodeState) -> tuple[str, ...]:
        """Return why a pod's volumes keep it from a node."""
        reasons = {self._refusal(claim, node) for claim in self._claims_of(pod) if _bound(claim)}
        unbound = [claim for claim in self._claims_of(pod) if not _bound(claim)]
        if unbound and self._choice(unbound, node) is None:
            reasons.add(NOTHING_FREE)
        return tuple(sorted(reasons - {""}))

    def _refusal(self, claim: Obj, node: NodeState) -> str:
        volume = self._volumes.get("", claim["spec"]["volumeName"])
        if volume is None:
            return GONE
        return "" if reaches(volume, node) else NOT_REACHED

    async def choose(self, pod: Obj, node: NodeState) -> bool:
        """Bring the pod's claims to a node; tells whether they are all bound, so that the pod can follow."""
        waiting = [claim for claim in self._claims_of(pod) if not _bound(claim)]
        for claim, volume in self._choice(waiting, node) or ():
            meta = claim["metadata"]
            if volume is not None and not _is_for(volume, claim):
                reference = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
                reference |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
                notes = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
                patch = {"metadata": notes, "spec": {"claimRef": reference}}
                await self._volumes.patch(volume, patch)
            elif volume is None and SELECTED not in (meta.get("annotations") or {}):
                patch = {"metadata": {"annotations": {SELECTED: node.name}}}
                await self._claims.patch(claim, patch)
        return not waiting

    def _choice(self, claims: list[Obj], node: NodeState) -> list[tuple[Obj, Obj | None]] | None:
        """Return the volume each claim gets, None for one to be made; or nothing if there are not enough."""
        found: list[tuple[Obj, Obj | None]] = []
        free = sorted((v for v in self._volumes.items() if reaches(v, node)), key=capacity)
        for claim in claims:
            chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED)
            volume = next((v for v in free if _is_for(v, claim) or (suits(v, claim) and not chosen)), None)
            if volume is not None:
                free.remove(volume)
            elif (chosen and chosen != node.name) or not self._can_provision(claim, node):
                return None
            found.append((claim, volume))
        return found

    def _claims_of(self, pod: Obj) -> list[Obj]:
        found = (self._claims.get(pod["metadata"]["namespace"], name) for name in claim_names(pod))
        return [claim for claim in found if claim is not None]

    def _class(self, claim: Obj) -> Obj | None:
        return self._classes.get("", claim["spec"].get("storageClassName") or "")

    def _waits(self, claim: Obj) -> bool:
        found = self._class(claim)
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _can_provision(self, claim: Obj, node: NodeState) -> bool:
        found = self._class(claim)
        if found is None or found["provisioner"] == NO_PROVISIONER:
            return False
        topologies = found.get("allowedTopologies")
        return not topologies or any(_allows(topology, node) for topology in topologies)


def reaches(volume: Obj, node: NodeState) -> bool:
    """Whether a node can have a volume."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def _allows(topology: Obj, node: NodeState) -> bool:
    expressions = topology.get("matchLabelExpressions") or ()
    return all(node.labels.get(found.get("key")) in (found.get("values") or ()) for found in expressions)


def names(pod: Obj, claim: Obj) -> bool:
    """Tell whether a pod has a volume of a claim."""
    wanted, meta = pod["metadata"]["namespace"], claim["metadata"]
    return bool(wanted == meta["namespace"]) and meta["name"] in _claims_by_name(pod)


def _claims_by_name(pod: Obj) -> dict[str, bool]:
    """Return the names of a pod's claims, and whether each is made for the pod alone."""
    own = {f"{pod['metadata']['name']}-{v['name']}" for v in pod["spec"].get("volumes") or () if "ephemeral" in v}
    return {name: name in own for name in claim_names(pod)}


def _is_for(volume: Obj, claim: Obj) -> bool:
    """Tell whether a volume has been chosen for a claim."""
    return bool((volume["spec"].get("claimRef") or {}).get("uid") == claim["metadata"]["uid"])


def _bound(claim: Obj) -> bool:
    return bool(claim["spec"].get("volumeName")) and COMPLETED in (claim["metadata"].get("annotations") or {})
