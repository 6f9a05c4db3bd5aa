"""node-feature-discovery: a worker tells what its machine has (NodeFeature), the master labels the node with it."""

from __future__ import annotations

from kubesim.addons.operator import Discovery, Operator
from kubesim.controllers.base import Context, Controller
from kubesim.errors import Obj, tolerating
from kubesim.gpu.hardware import bus
from kubesim.kubelet.duties import Post

RESOURCE, NAMESPACE = "nodefeatures.nfd.k8s-sigs.io", "gpu-operator"
NODE = "nfd.node.kubernetes.io/node-name"
PREFIX = "feature.node.kubernetes.io/"
CPUID = ("AESNI", "AMXTILE", "AVX2", "AVX512BF16", "AVX512F", "FMA3")
CLASSES = ("03", "0b40", "12")
"""The classes of devices on the bus that labels are made of, where nobody configures others."""


class Worker(Discovery):
    """The worker of one node."""

    async def tell(self) -> None:
        """Make the node's object."""
        node = await self.post.client.get("nodes", self.post.node)
        board = self.post.machines.gpus(self.post.node).board
        vendors = {each.ids.partition(":")[0] for each in bus(board) if each.code.startswith(CLASSES)}
        meta = {"name": self.post.node, "namespace": NAMESPACE, "labels": {NODE: self.post.node}}
        spec = {"labels": labels(node, vendors)}
        feature = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": meta, "spec": spec}
        with tolerating(409):
            await self.post.api.create(RESOURCE, feature, namespace=NAMESPACE)


def labels(node: Obj, vendors: set[str]) -> dict[str, str]:
    """Return the labels that a machine gets for its processor, kernel, distribution and devices."""
    info = node["status"]["nodeInfo"]
    kernel, _, _ = info["kernelVersion"].partition("-")
    major, minor, revision = kernel.split(".")
    number = info["osImage"].split()[1]
    version = ".".join(number.split(".")[:2])
    found = {f"cpu-cpuid.{name}": "true" for name in CPUID} | {
        "cpu-hardware_multithreading": "true",
        "cpu-model.family": "6",
        "cpu-model.id": "143",
        "cpu-model.vendor_id": "Intel",
        "kernel-version.full": info["kernelVersion"],
        "kernel-version.major": major,
        "kernel-version.minor": minor,
        "kernel-version.revision": revision,
        "system-os_release.ID": "ubuntu",
        "system-os_release.VERSION_ID": version,
        "system-os_release.VERSION_ID.major": version.partition(".")[0],
        "system-os_release.VERSION_ID.minor": version.partition(".")[2],
    }
    return {
        f"{PREFIX}{name}": value for name, value in (found | {f"pci-{v}.present": "true" for v in vendors}).items()
    }


class Master(Controller):
    """Labels nodes with what their workers have told."""

    source = "nfd-master"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self._features, self._nodes = self.informers[RESOURCE], self.informers["nodes"]

    def listen(self) -> None:
        """Watch what is told."""
        self.watch_own(self._features)

    async def sync(self, namespace: str, name: str) -> None:
        """Label the node of one object."""
        told = self._features.get(namespace, name)
        node = self._nodes.get("", name)
        if told is None or node is None:
            return
        held, wanted = node["metadata"].get("labels") or {}, (told["spec"].get("labels") or {})
        changed = {key: value for key, value in wanted.items() if held.get(key) != value}
        if changed:
            with tolerating(404):
                await self._nodes.patch({"metadata": {"name": name}}, {"metadata": {"labels": changed}})


def begin(post: Post) -> Worker:
    """Begin to tell."""
    return Worker(post)


def master(post: Post) -> Operator:
    """Begin to label."""
    return Operator(post, Master)
