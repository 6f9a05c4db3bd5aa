"""The volumes of a CSI driver that the cluster has: made when a claim asks for one."""

from __future__ import annotations

from kubesim.controllers.base import Context, Keeper, queue_key
from kubesim.controllers.volumes import CLAIMS, CLASSES, PROVISIONED_BY, PROVISIONER, SELECTED, VOLUMES
from kubesim.errors import Obj

ZONE = "topology.kubernetes.io/zone"
WORK_S = 2.0


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
