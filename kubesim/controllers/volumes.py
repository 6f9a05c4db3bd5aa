"""Volumes and claims: their binding, what waits for what, and what keeps either from going.

A CSI driver of the cluster makes volumes for claims. Nobody makes the claims of generic ephemeral volumes.
"""

from __future__ import annotations

from kubesim.api.quantity import parse
from kubesim.api.selectors import from_struct
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, Keeper, drop_finalizer, is_ending, latest, queue_key
from kubesim.errors import Obj, tolerating
from kubesim.storage_classes import DRIVER, IN_TREE
from kubesim.times import stamp

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
CLAIM_IN_USE, VOLUME_IN_USE = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"
COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
RESYNC_S = 15.0
NOT_DELETABLE = 'error getting deleter volume plugin for volume "{}": no deletable volume plugin matched'
ZONE = "topology.kubernetes.io/zone"
WORK_S = 2.0


class VolumeController(Controller):
    """Binds claims to volumes. The keys of its queue: ``namespace/claim``, and ``/volume``."""

    source = "persistentvolume-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.claims = self.informers[CLAIMS]
        self.volumes = self.informers[VOLUMES]
        self.classes = self.informers[CLASSES]
        self.drivers = self.informers["csidrivers.storage.k8s.io"]
        self.pods = self.informers["pods"]

    def listen(self) -> None:
        """Watch claims, volumes, and the pods that use claims."""
        self.pods.add_index("claim", claims_of)
        self.volumes.add_index("claim", _claim_key)
        self.volumes.add_handler(self._volume_changed)
        self.watch_own(self.claims)
        self.pods.add_handler(self._pod_changed)

    def _volume_changed(self, old: Obj | None, new: Obj | None) -> None:
        volume = latest(old, new)
        if new is not None:
            self.queue.add(queue_key(new))
        reference = volume["spec"].get("claimRef")
        if reference:
            self.queue.add(f"{reference['namespace']}/{reference['name']}")
        else:
            for claim in self.claims.items():
                if not claim["spec"].get("volumeName"):
                    self.queue.add(queue_key(claim))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or pods.phase_of(new) in pods.ENDED:
            for key in claims_of(latest(old, new)):
                self.queue.add(key)

    async def sync(self, namespace: str, name: str) -> None:
        """Take one claim, or one volume, a step further."""
        if not namespace:
            volume = self.volumes.get("", name)
            if volume is not None:
                await self._sync_volume(volume)
            return
        claim = self.claims.get(namespace, name)
        if claim is None:
            for volume in self.volumes.by("claim", f"{namespace}/{name}"):
                await self._sync_volume(volume)
            return
        if is_ending(claim):
            if not self._users(claim):
                await drop_finalizer(self.claims, claim, CLAIM_IN_USE)
        elif claim["metadata"].get("annotations", {}).get(COMPLETED):
            await self._keep(claim)
        else:
            await self._bind(claim)

    def _users(self, claim: Obj) -> list[Obj]:
        users = self.pods.by("claim", queue_key(claim))
        return [pod for pod in users if pods.phase_of(pod) not in pods.ENDED]

    async def _patch(self, resource: str, obj: Obj, patch: Obj) -> Obj:
        with tolerating(404):
            return await self.informers[resource].patch(obj, patch)
        return obj

    # Volumes.

    async def _sync_volume(self, volume: Obj) -> None:
        reference = volume["spec"].get("claimRef")
        if not reference:
            if is_ending(volume):
                await drop_finalizer(self.volumes, volume, VOLUME_IN_USE)
            else:
                await self._phase(volume, "Available")
            return
        claim = self.claims.get(reference["namespace"], reference["name"])
        if reference.get("uid") and (claim is None or claim["metadata"]["uid"] != reference["uid"]):
            if volume.get("status", {}).get("phase") != "Failed":
                await self._phase(volume, "Released")
            if is_ending(volume):
                await drop_finalizer(self.volumes, volume, VOLUME_IN_USE)
            elif volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                await self._reclaim(volume)
        elif not reference.get("uid"):
            await self._phase(volume, "Available")

    async def _reclaim(self, volume: Obj) -> None:
        driver = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY, "")
        if self.drivers.get("", driver) is not None:
            await self.volumes.delete(volume)
        elif "csi" not in volume["spec"]:
            await self._phase(volume, "Failed", NOT_DELETABLE.format(_name(volume)))

    async def _phase(self, volume: Obj, phase: str, message: str = "") -> None:
        status = volume.get("status", {})
        if status.get("phase") == phase:
            return
        fresh: Obj = {"phase": phase, "lastPhaseTransitionTime": stamp(self.clock.now())}
        await self.write_status(self.volumes, volume, fresh | ({"message": message} if message else {}))
        if message:
            await self.recorder.warning(volume, "VolumeFailedDelete", message)

    # Claims.

    async def _keep(self, claim: Obj) -> None:
        """Tell a bound claim from one whose volume is gone."""
        volume = self.volumes.get("", claim["spec"].get("volumeName", ""))
        if volume is not None:
            await self._complete(claim, volume)
        elif claim["status"].get("phase") != "Lost":
            await self.write_status(self.claims, claim, {"phase": "Lost"})
            await self.tell(claim, "ClaimLost")

    async def _bind(self, claim: Obj) -> None:
        named = claim["spec"].get("volumeName")
        if named:
            volume = self.volumes.get("", named)
            if volume is not None and _free_for(volume, claim):
                await self._complete(claim, await self._claim_volume(volume, claim))
            return
        volume = self._best(claim)
        if volume is not None:
            await self._complete(claim, await self._claim_volume(volume, claim))
            return
        await self._wait(claim)
        self.queue.add_after(queue_key(claim), RESYNC_S)

    def _best(self, claim: Obj) -> Obj | None:
        """Return the volume made for the claim, or else of those that can least the smallest that will do."""
        volumes = sorted(self.volumes.items(), key=_rank)
        chosen = [volume for volume in volumes if volume["spec"].get("claimRef") and _free_for(volume, claim)]
        if chosen or self._waits(claim):
            return chosen[0] if chosen else None
        return next((volume for volume in volumes if suits(volume, claim)), None)

    def _waits(self, claim: Obj) -> bool:
        """Whether a claim's class leaves the choice of the volume to the scheduler, which has not chosen yet."""
        found = self.classes.get("", class_of(claim))
        chosen = SELECTED in (claim["metadata"].get("annotations") or {})
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer" and not chosen

    async def _claim_volume(self, volume: Obj, claim: Obj) -> Obj:
        meta = claim["metadata"]
        reference = {
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": "v1",
            "resourceVersion": meta["resourceVersion"],
        }
        patch: Obj = {"spec": {"claimRef": reference}}
        if not volume["spec"].get("claimRef"):
            patch["metadata"] = {"annotations": {BOUND_BY_US: "yes"}}
        elif volume["spec"]["claimRef"].get("uid") == meta["uid"]:
            patch = {}
        volume = await self._patch(VOLUMES, volume, patch) if patch else volume
        await self._phase(volume, "Bound")
        return self.volumes.get("", _name(volume)) or volume

    async def _complete(self, claim: Obj, volume: Obj) -> None:
        """Write into the claim which volume it has."""
        notes = claim["metadata"].get("annotations") or {}
        if claim["spec"].get("volumeName") != _name(volume) or COMPLETED not in notes:
            wanted = {COMPLETED: "yes", **({} if claim["spec"].get("volumeName") else {BOUND_BY_US: "yes"})}
            patch = {"metadata": {"annotations": wanted}, "spec": {"volumeName": _name(volume)}}
            claim = await self._patch(CLAIMS, claim, patch)
        spec = volume["spec"]
        status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
        await self.write_status(self.claims, claim, {**claim.get("status", {}), **status})

    async def _wait(self, claim: Obj) -> None:
        """Say what an unbound claim waits for, and ask for a volume where its class can make one."""
        name = class_of(claim)
        if self._waits(claim):
            await self._wait_for_pod(claim)
            return
        if not name:
            await self.tell(claim, "FailedBinding")
            return
        found = self.classes.get("", name)
        if found is None:
            await self.tell(claim, "ProvisioningFailed", why=f'storageclass.storage.k8s.io "{name}" not found')
            return
        provisioner = DRIVER if found["provisioner"] == IN_TREE else found["provisioner"]
        if provisioner.startswith("kubernetes.io/"):
            await self.tell(claim, "ProvisioningFailed", why=f"no volume plugin matched name: {provisioner}")
        else:
            await self._ask(claim, provisioner)

    async def _wait_for_pod(self, claim: Obj) -> None:
        waiting = sorted(_name(pod) for pod in self._users(claim) if not pod["spec"].get("nodeName"))
        if waiting:
            names = f"pod {waiting[0]}" if len(waiting) == 1 else f"pods {','.join(waiting)}"
            await self.tell(claim, "WaitForPodScheduled", pods=names)
        else:
            await self.tell(claim, "WaitForFirstConsumer")

    async def _ask(self, claim: Obj, provisioner: str) -> None:
        wanted = {PROVISIONER: provisioner, OLD_PROVISIONER: provisioner}
        if not wanted.items() <= (claim["metadata"].get("annotations") or {}).items():
            claim = await self._patch(CLAIMS, claim, {"metadata": {"annotations": wanted}})
        await self.tell(claim, "ExternalProvisioning", provisioner=provisioner)


def claims_of(pod: Obj) -> list[str]:
    """Return the claims that a pod uses, as ``namespace/name``."""
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for name in claim_names(pod)]


def claim_names(pod: Obj) -> list[str]:
    """Return the names of the claims behind a pod's volumes; an ephemeral volume's is named after both."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{_name(pod)}-{volume['name']}")
    return found


def suits(volume: Obj, claim: Obj) -> bool:
    """Whether a free volume has what a claim asks for."""
    spec, wanted = volume["spec"], claim["spec"]
    if spec.get("claimRef") or is_ending(volume) or class_of(volume) != class_of(claim):
        return False
    if spec.get("volumeMode", "Filesystem") != wanted.get("volumeMode", "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    if wanted.get("selector") and not from_struct(wanted["selector"]).selects(volume):
        return False
    asked = (wanted.get("resources") or {}).get("requests", {}).get("storage", "0")
    return capacity(volume) >= float(parse(asked))


def _rank(volume: Obj) -> tuple[int, float, str]:
    return len(volume["spec"].get("accessModes") or ()), capacity(volume), _name(volume)


def capacity(volume: Obj) -> float:
    """Return the bytes that a volume holds."""
    return float(parse((volume["spec"].get("capacity") or {}).get("storage", "0")))


def class_of(obj: Obj) -> str:
    """Return the storage class of a volume or claim."""
    return str(obj["spec"].get("storageClassName") or "")


def _claim_key(volume: Obj) -> list[str]:
    reference = volume["spec"].get("claimRef") or {}
    return [f"{reference.get('namespace', '')}/{reference.get('name', '')}"]


def _free_for(volume: Obj, claim: Obj) -> bool:
    reference = volume["spec"].get("claimRef")
    if not reference:
        return True
    meta = claim["metadata"]
    named = (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
    return named and reference.get("uid", meta["uid"]) == meta["uid"]


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


class Provisioner(Keeper):
    """Answers the claims whose provisioner is one of the cluster's CSIDrivers, as a driver's own controller does."""

    source = "external-provisioner"
    resource = CLAIMS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.volumes = self.informers[VOLUMES]
        self.classes = self.informers[CLASSES]
        self.drivers = self.informers["csidrivers.storage.k8s.io"]
        self.nodes = self.informers["nodes"]

    def listen(self) -> None:
        """Watch claims; a driver's work takes a moment."""
        self.own.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and not new["spec"].get("volumeName") and self._driver(new):
            self.queue.add_after(queue_key(new), WORK_S)

    def _driver(self, claim: Obj) -> str:
        name = (claim["metadata"].get("annotations") or {}).get(PROVISIONER, "")
        return name if self.drivers.get("", name) is not None else ""

    async def look_after(self, claim: Obj) -> None:
        """Make the volume of one claim."""
        driver = self._driver(claim)
        if claim["spec"].get("volumeName") or not driver:
            return
        found = self.classes.get("", claim["spec"].get("storageClassName", ""))
        volume = f"pvc-{claim['metadata']['uid']}"
        if found is None or self.volumes.get("", volume) is not None:
            return
        await self.tell(claim, "Provisioning", claim=queue_key(claim))
        await self.volumes.create(self._volume(claim, found, driver, volume))
        await self.tell(claim, "ProvisioningSucceeded", volume=volume)

    def _volume(self, claim: Obj, storage_class: Obj, driver: str, name: str) -> Obj:
        meta, spec = claim["metadata"], claim["spec"]
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        reference |= {field: meta[field] for field in ("namespace", "name", "uid", "resourceVersion")}
        wanted: Obj = {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "csi": {"driver": driver, "volumeHandle": name},
        }
        if affinity := self._affinity(meta.get("annotations", {}).get(SELECTED, "")):
            wanted["nodeAffinity"] = affinity
        notes = {PROVISIONED_BY: driver}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": notes},
            "spec": wanted,
        }

    def _affinity(self, node: str) -> Obj | None:
        """Return the zone of the node that the scheduler chose."""
        found = self.nodes.get("", node)
        zone = (found["metadata"].get("labels") or {}).get(ZONE) if found is not None else None
        if not zone:
            return None
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        return {"required": {"nodeSelectorTerms": [term]}}
