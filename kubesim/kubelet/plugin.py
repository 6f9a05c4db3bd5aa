"""The NVIDIA device plugin: while it runs, its node has GPUs to give."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.kubelet.duties import Post


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """A device plugin's container."""

    post: Post

    def stop(self) -> None:
        """Let the kubelet lose sight of the devices."""
        self.post.machines.gpus(self.post.node).plugin_ends(self.post.owner, self.post.clock.now())


def begin(post: Post) -> DevicePlugin:
    """Register the devices with the kubelet."""
    post.machines.gpus(post.node).plugin_starts(post.owner, resumed=post.resumed)
    return DevicePlugin(post)
