"""The classes of volumes that GKE gives a cluster: ``storage_classes.yaml``."""

from __future__ import annotations

from kubesim import data
from kubesim.client import Client
from kubesim.errors import Obj, tolerating

DRIVER = "pd.csi.storage.gke.io"
IN_TREE = "kubernetes.io/gce-pd"
"""What older classes name, in whose place the driver works."""
OBJECTS: dict[str, list[Obj]] = data.table(__file__, "storage_classes.yaml")


async def create(client: Client) -> None:
    """Create the classes and their driver, as far as they are missing."""
    for resource, objects in OBJECTS.items():
        for obj in objects:
            with tolerating(409):
                await client.create(resource, obj)
