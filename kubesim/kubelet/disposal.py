"""What a pod took of its node's disk comes back: a container's files with it, the pod's volumes when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.kubelet.layers import taken
from kubesim.shell.machine import Machine

if TYPE_CHECKING:
    from kubesim.kubelet.sandbox import Sandbox


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
