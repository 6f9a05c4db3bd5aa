"""The cluster autoscaler: pools of nodes that grow for pods which find no room, and shrink when nodes stand idle.

Events and their words are those of cluster-autoscaler 1.34. Pools come from arguments: ``--nodes=least:most:pool``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.addons.operator import Operator
from kubesim.conditions import condition_of
from kubesim.controllers.base import Context, Controller
from kubesim.errors import ApiError, Obj
from kubesim.gpu.nodes import PRODUCTS, ZONE, node
from kubesim.kubelet.duties import Post
from kubesim.scheduler.state import NodeState, PodInfo
from kubesim.scheduler.terms import selects_node, untolerated
from kubesim.times import parse, stamp

POOL_LABEL = "cloud.google.com/gke-nodepool"
LOOK_S, JOIN_S = 10.0, 60.0
UNNEEDED_S = 600.0
MARK = "ToBeDeletedByClusterAutoscaler"
STATUS = "cluster-autoscaler-status"
NODES = re.compile(r"--nodes=(\d+):(\d+):(\S+)")
UNNEEDED = re.compile(r"--scale-down-unneeded-time=(\d+)([smh])")
GROUP = "https://www.googleapis.com/compute/v1/projects/ml-prod/zones/{zone}/instanceGroups/gke-ml-prod-{pool}-grp"
GPUS = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as the arguments describe it."""

    name: str
    least: int
    most: int

    @property
    def group(self) -> str:
        """The name of its instance group."""
        return GROUP.format(zone=ZONE, pool=self.name)


class Autoscaler(Controller):
    """Looks at all pending pods and all nodes every ten seconds."""

    source = "cluster-autoscaler"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self.post = post
        self.pods = self.informers["pods"]
        self.nodes = self.informers["nodes"]
        words = " ".join(post.argv)
        self._pools = [Pool(name, int(least), int(most)) for least, most, name in NODES.findall(words)]
        found = UNNEEDED.search(words)
        self._unneeded_s = int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] if found else UNNEEDED_S
        self._coming: dict[str, list[Obj]] = {}
        """Pool -> nodes that are being made."""
        self._idle: dict[str, datetime] = {}

    def listen(self) -> None:
        """Begin to look."""
        self.queue.add("/")

    async def sync(self, namespace: str, name: str) -> None:
        """Look once."""
        if name:
            await self._join(name)
            return
        self.queue.add_after("/", LOOK_S)
        await self._grow()
        await self._shrink()

    # Growing.

    async def _grow(self) -> None:
        promised: list[NodeState] = [NodeState(obj) for made in self._coming.values() for obj in made]
        for pod in sorted(filter(_is_unschedulable, self.pods.items()), key=lambda pod: pod["metadata"]["name"]):
            info = PodInfo(pod)
            room = next((state for state in promised if refusal(info, state) == ""), None)
            if room is not None:
                room.add(info)
                continue
            state = await self._grow_for(pod, info)
            if state is not None:
                state.add(info)
                promised.append(state)

    async def _grow_for(self, pod: Obj, info: PodInfo) -> NodeState | None:
        """Add a node for a pod, or say why none would help."""
        reasons: Counter[str] = Counter()
        for pool in self._pools:
            template = self._template(pool)
            if template is None:
                continue
            if why := refusal(info, NodeState(template)):
                reasons[why] += 1
            elif self._size(pool) >= pool.most:
                reasons["max node group size reached"] += 1
            else:
                return await self._add(pool, template, pod)
        said = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items(), key=lambda item: item[0]))
        text = f"pod didn't trigger scale-up: {said}" if said else "pod didn't trigger scale-up:"
        await self.recorder.normal(pod, "NotTriggerScaleUp", text)
        return None

    async def _add(self, pool: Pool, template: Obj, pod: Obj) -> NodeState:
        size = self._size(pool)
        self._coming.setdefault(pool.name, []).append(template)
        text = f"pod triggered scale-up: [{{{pool.group} {size}->{size + 1} (max: {pool.most})}}]"
        await self.recorder.normal(pod, "TriggeredScaleUp", text)
        text = f"Scale-up: setting group {pool.group} size to {size + 1} instead of {size} (max: {pool.most})"
        await self._tell("ScaledUpGroup", text)
        self.queue.add_after(f"/{template['metadata']['name']}", JOIN_S)
        return NodeState(template)

    async def _join(self, name: str) -> None:
        """A node that was ordered has booted."""
        for made in self._coming.values():
            for obj in [obj for obj in made if obj["metadata"]["name"] == name]:
                await self.post.machines.add(obj)
                made.remove(obj)

    def _template(self, pool: Pool) -> Obj | None:
        """Return what the next node of a pool would be: as those that it has, else as its name says."""
        product = next((item for item in PRODUCTS.values() if item.machine.pool == pool.name), None)
        here = self._of(pool)
        if here:
            label = (here[0]["metadata"].get("labels") or {}).get("nvidia.com/gpu.product")
            product = next((item for item in PRODUCTS.values() if item.label == label), product)
        if product is None:
            return None
        gpus = int((here[0]["status"].get("capacity") or {}).get(GPUS, 0)) if here else len(product.bus)
        made = node(self._number(), gpus, self.clock.now(), product)
        if here:
            made["spec"]["taints"] = [t for t in here[0]["spec"].get("taints") or () if not _is_passing(t)]
            for label, text in (here[0]["metadata"].get("labels") or {}).items():
                made["metadata"]["labels"].setdefault(label, text)
        return made

    def _number(self) -> int:
        """Return a number that no node has had."""
        used = {obj["spec"].get("podCIDR") for obj in self.nodes.items()}
        used |= {obj["spec"]["podCIDR"] for made in self._coming.values() for obj in made}
        return next(number for number in range(len(used), 4096) if _range(number) not in used)

    def _of(self, pool: Pool) -> list[Obj]:
        found = self.nodes.items()
        return [obj for obj in found if (obj["metadata"].get("labels") or {}).get(POOL_LABEL) == pool.name]

    def _size(self, pool: Pool) -> int:
        return len(self._of(pool)) + len(self._coming.get(pool.name, ()))

    # Shrinking.

    async def _shrink(self) -> None:
        now = self.clock.now()
        for pool in self._pools:
            for obj in self._of(pool):
                name = obj["metadata"]["name"]
                if not self._is_idle(name):
                    self._idle.pop(name, None)
                    continue
                since = self._idle.setdefault(name, now)
                if now - since >= timedelta(seconds=self._unneeded_s) and self._size(pool) > pool.least:
                    await self._remove(obj)

    def _is_idle(self, name: str) -> bool:
        """Whether nothing runs on a node but daemons, and what has ended."""
        here = [pod for pod in self.pods.items() if pod["spec"].get("nodeName") == name]
        return all(_is_daemon(pod) or pod.get("status", {}).get("phase") in ("Succeeded", "Failed") for pod in here)

    async def _remove(self, obj: Obj) -> None:
        name, now = obj["metadata"]["name"], self.clock.now()
        taint = {"key": MARK, "value": str(int(now.timestamp())), "effect": "NoSchedule"}
        taints = [*(obj["spec"].get("taints") or ()), taint]
        try:
            await self.client.patch("nodes", name, "", {"spec": {"taints": taints}})
            await self.recorder.normal(obj, "ScaleDown", "node removed by cluster autoscaler")
            await self._tell("ScaleDownEmpty", f'Scale-down: removing empty node "{name}"')
            await self.client.delete("nodes", name)
        except ApiError as error:
            if error.code != 404:
                raise
        self._idle.pop(name, None)
        self.post.machines.remove(name)

    async def _tell(self, reason: str, text: str) -> None:
        """Say something of the cluster, on the config map of the autoscaler's status."""
        namespace = self.post.pod["metadata"]["namespace"]
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATUS, "namespace": namespace}}
        data = {"status": f"time: {stamp(self.clock.now())}\nautoscalerStatus: Running\n"}
        try:
            held = await self.client.create("configmaps", {**head, "data": data}, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            held = await self.client.patch("configmaps", STATUS, namespace, {"data": data})
        await self.recorder.normal(held, reason, text)


def begin(post: Post) -> Operator:
    """Begin to look."""
    return Operator(post, Autoscaler)


def refusal(pod: PodInfo, state: NodeState) -> str:
    """Return why a pod would not fit on a node, in the scheduler's words; empty where it would."""
    if untolerated(pod.spec, state) is not None:
        return "node(s) had untolerated taint(s)"
    if not selects_node(pod.spec, state):
        return "node(s) didn't match Pod's node affinity/selector"
    for name, amount in pod.requests.items():
        if amount > state.allocatable.get(name, 0) - state.requested.get(name, 0):
            return f"Insufficient {name}"
    return ""


def _is_unschedulable(pod: Obj) -> bool:
    if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
        return False
    found = condition_of(pod.get("status", {}), "PodScheduled")
    return found.get("status") == "False" and found.get("reason") == "Unschedulable"


def _is_daemon(pod: Obj) -> bool:
    return any(owner["kind"] in ("DaemonSet", "Node") for owner in pod["metadata"].get("ownerReferences") or ())


def _is_passing(taint: Obj) -> bool:
    return str(taint["key"]).startswith("node.kubernetes.io/") or taint["key"] == MARK


def _range(number: int) -> str:
    return str(node(number, 0, parse("2026-01-01T00:00:00Z"), PRODUCTS["H100"])["spec"]["podCIDR"])
