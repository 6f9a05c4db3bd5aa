"""The classes of volumes that GKE gives a cluster, and the driver that makes those volumes.

Source: https://cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes#storageclasses
"""

from __future__ import annotations

from kubesim.client import Client
from kubesim.errors import Obj, tolerating

DRIVER = "pd.csi.storage.gke.io"
IN_TREE = "kubernetes.io/gce-pd"
"""What older classes name, in whose place the driver works."""
DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLASSES = {
    "standard-rwo": (DRIVER, "pd-balanced", "WaitForFirstConsumer"),
    "premium-rwo": (DRIVER, "pd-ssd", "WaitForFirstConsumer"),
    "standard": (IN_TREE, "pd-standard", "Immediate"),
}
"""By name: who makes its volumes, of which disks, and when. The first one is the default."""


async def create(client: Client) -> None:
    """Create the classes and their driver, as far as they are missing."""
    spec = {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "ReadWriteOnceWithFSType"}
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}
    with tolerating(409):
        await client.create("csidrivers.storage.k8s.io", driver)
    for name in CLASSES:
        with tolerating(409):
            await client.create("storageclasses.storage.k8s.io", _class(name))


def _class(name: str) -> Obj:
    provisioner, disk, mode = CLASSES[name]
    notes = {"components.gke.io/layer": "addon"} | ({DEFAULT: "true"} if name == next(iter(CLASSES)) else {})
    labels = {"addonmanager.kubernetes.io/mode": "EnsureExists"}
    if provisioner == DRIVER:
        labels["k8s-app"] = "gcp-compute-persistent-disk-csi-driver"
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": notes, "labels": labels},
        "provisioner": provisioner,
        "parameters": {"type": disk},
        "allowVolumeExpansion": True,
        "volumeBindingMode": mode,
    }
