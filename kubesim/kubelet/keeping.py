"""Files of a pod: what its processes have written outlives a restart of kubesim, and goes with them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kubesim.errors import Obj
from kubesim.kubelet import layers
from kubesim.kubelet.environment import ConfigError
from kubesim.kubelet.layers import taken
from kubesim.kubelet.sandbox import Sandbox
from kubesim.kubelet.volumes import MountError
from kubesim.shell.machine import Machine

if TYPE_CHECKING:
    from kubesim.kubelet.sandbox import Sandbox


def dump(sandbox: Sandbox) -> Obj:
    """Return the files that differ from those of the images, and those of the pod's own volumes."""
    spec, mounts = sandbox.worker.record.pod["spec"], sandbox.mounts or {}
    own = [volume["name"] for volume in spec.get("volumes") or () if "emptyDir" in volume]
    containers: Obj = {}
    for container in sandbox.worker.record.containers:
        box, instance = sandbox.boxes.get(container.name), container.instance
        if box is not None and box.machine is not None and instance is not None:
            written = layers.dump(box.machine.files.root, box.since)
            containers[container.name] = {"id": instance.id, "files": written}
    volumes = {name: layers.dump(mounts[name]) for name in own if name in mounts}
    return {"containers": containers, "volumes": volumes}


async def restore(sandbox: Sandbox, saved: Obj) -> None:
    """Bring back what ``dump`` has returned, into containers that still are in the life in which it was written."""
    with suppress(ConfigError, MountError):
        mounts = await sandbox.volumes() if any(saved["volumes"].values()) else {}
        for name, files in saved["volumes"].items():
            if name in mounts:
                layers.restore(mounts[name], files)
    for container in sandbox.worker.record.containers:
        kept = saved["containers"].get(container.name)
        instance = container.instance
        if kept and kept["files"] and container.running and instance is not None and instance.id == kept["id"]:
            with suppress(ConfigError, MountError):
                _, machine = await sandbox.inside(container)
                layers.restore(machine.files.root, kept["files"])


def discard(sandbox: Sandbox, machine: Machine) -> None:
    """Let go of a container's machine."""
    sandbox.host.node.disk.room.take(-taken(machine.files.root))
    machine.discard()


def clear(sandbox: Sandbox) -> None:
    """Empty the volumes that are the pod's own."""
    for volume in sandbox.worker.record.pod["spec"].get("volumes") or ():
        if "emptyDir" in volume and sandbox.mounts and volume["name"] in sandbox.mounts:
            mounted = sandbox.mounts[volume["name"]]
            sandbox.host.node.disk.room.take(-taken(mounted))
            mounted.entries.clear()
