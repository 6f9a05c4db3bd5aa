"""The NVIDIA device plugin: while it runs, its node has GPUs to give."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.kubelet.duties import Post

NVML_S = 0.5
FAILED = (
    "E main.go:173] error starting plugins: error creating plugin manager: unable to create cdi spec file: "
    "failed to get CDI spec: failed to initialize NVML: {}"
)


@dataclass(frozen=True, slots=True)
class DevicePlugin:
    """A device plugin's container."""

    post: Post

    def stop(self) -> None:
        """Let the kubelet lose sight of the devices."""
        self.post.machines.gpus(self.post.node).plugin_ends(self.post.owner, self.post.clock.now())


def begin(post: Post) -> DevicePlugin:
    """Register the devices with the kubelet; without the driver's library there is nothing to register."""
    gpus = post.machines.gpus(post.node)
    if not gpus.count:
        return DevicePlugin(post)
    if why := gpus.nvml_error:
        post.clock.call_later(NVML_S, lambda: post.die(FAILED.format(why)))
        return DevicePlugin(post)
    gpus.plugin_starts(post.owner, post.say, resumed=post.resumed)
    return DevicePlugin(post)
