"""What the scheduler knows of volumes: whether a pod's claims are there, which nodes reach them, what it chooses."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.controllers.volumes import CLAIMS, CLASSES, NO_PROVISIONER, SELECTED, VOLUMES, claim_names, suits
from kubesim.errors import Obj
from kubesim.informer import Informer
from kubesim.scheduler.state import NodeState
from kubesim.scheduler.terms import matches_term

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_FREE = "node(s) didn't find available persistent volumes to bind"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Volumes:
    """The claims, volumes and classes of a cluster."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self.claims = Informer(client, clock, CLAIMS)
        self._volumes = Informer(client, clock, VOLUMES)
        self._classes = Informer(client, clock, CLASSES)

    async def start(self) -> None:
        """Fill the caches."""
        for informer in (self.claims, self._volumes, self._classes):
            await informer.start()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` whenever anything changes."""
        for informer in (self.claims, self._volumes, self._classes):
            informer.add_handler(lambda old, new: tell())

    async def stop(self) -> None:
        """Stop at once."""
        for informer in (self.claims, self._volumes, self._classes):
            await informer.stop()

    def hindrance(self, pod: Obj) -> str:
        """Return why a pod can be on no node at all; empty where its claims hold nothing up."""
        namespace = pod["metadata"]["namespace"]
        unbound = False
        for name in claim_names(pod):
            claim = self.claims.get(namespace, name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim["metadata"].get("deletionTimestamp"):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if claim["status"].get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            unbound = unbound or (not _bound(claim) and not self._waits(claim))
        return UNBOUND if unbound else ""

    def refusals(self, pod: Obj, node: NodeState) -> tuple[str, ...]:
        """Return why a pod's volumes keep it from a node."""
        reasons = []
        for claim in self._claims(pod):
            volume = self._volumes.get("", claim["spec"].get("volumeName", ""))
            chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED)
            if volume is not None:
                reasons += [] if reaches(volume, node) else [NOT_REACHED]
            elif self._static(claim, node) is None and not self._can_provision(claim):
                reasons.append(NOTHING_FREE)
            elif chosen and chosen != node.name:
                reasons.append(NOT_REACHED)
        return tuple(sorted(set(reasons)))

    async def choose(self, pod: Obj, node: NodeState) -> bool:
        """Bring the pod's claims to a node; tells whether they are all bound, so that the pod can follow."""
        waiting = [claim for claim in self._claims(pod) if not _bound(claim)]
        for claim in waiting:
            meta = claim["metadata"]
            volume = self._static(claim, node)
            if volume is not None:
                reference = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
                reference |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
                notes = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
                patch = {"metadata": notes, "spec": {"claimRef": reference}}
                self._volumes.note(await self._client.patch(VOLUMES, volume["metadata"]["name"], "", patch))
            elif SELECTED not in (meta.get("annotations") or {}):
                patch = {"metadata": {"annotations": {SELECTED: node.name}}}
                self.claims.note(await self._client.patch(CLAIMS, meta["name"], meta["namespace"], patch))
        return not waiting

    def _claims(self, pod: Obj) -> list[Obj]:
        found = (self.claims.get(pod["metadata"]["namespace"], name) for name in claim_names(pod))
        return [claim for claim in found if claim is not None]

    def _class(self, claim: Obj) -> Obj | None:
        return self._classes.get("", claim["spec"].get("storageClassName") or "")

    def _waits(self, claim: Obj) -> bool:
        found = self._class(claim)
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _can_provision(self, claim: Obj) -> bool:
        found = self._class(claim)
        return found is not None and found["provisioner"] != NO_PROVISIONER

    def _static(self, claim: Obj, node: NodeState) -> Obj | None:
        """Return a volume that is there and that the node reaches."""
        return next((v for v in self._volumes.items() if suits(v, claim) and reaches(v, node)), None)


def reaches(volume: Obj, node: NodeState) -> bool:
    """Whether a node can have a volume."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    return required is None or any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def _bound(claim: Obj) -> bool:
    return bool(claim["spec"].get("volumeName")) and claim["status"].get("phase") == "Bound"
