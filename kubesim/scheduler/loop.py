"""The scheduling loop: a line of pods without a node, and another look at those refused after a change."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.conditions import condition_of, renewed, said
from kubesim.controllers.base import is_ending
from kubesim.controllers.node import disruption
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.informer import Informers, WorkQueue
from kubesim.recorder import Recorder
from kubesim.scheduler.filters import prepare, refuse
from kubesim.scheduler.preemption import BY_US, Candidate
from kubesim.scheduler.relations import Watched
from kubesim.scheduler.state import ENDED, Cluster, HinderedError, PodInfo
from kubesim.scheduler.verdict import Judge, Verdict
from kubesim.scheduler.volumes import Volumes, names

NAME = "default-scheduler"
FLUSH_S = 300.0
"""After so many seconds a refused pod is looked at again in any case."""
PREEMPTED = (BY_US, f"{NAME}: preempting to accommodate a higher priority pod")


class Scheduler:
    """Binds pods to nodes."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._informers = Informers(client, clock)
        self._pods = self._informers["pods"]
        self._nodes = self._informers["nodes"]
        self._volumes = Volumes(self._informers)
        self._cluster = Cluster(self._volumes, Watched(self._informers))
        self._judge = Judge(self._cluster)
        self._recorder = Recorder(client, clock, NAME, series=True)
        self._waiting = Waiting()
        self._queue = WorkQueue(clock, self._schedule, "scheduler", ready=Ranked(self._priority), resource="pods")

    async def start(self) -> None:
        """Fill the caches and begin."""
        await self._informers.start()
        self._volumes.on_change(self._volumes_changed)
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        self._queue.start()

    async def stop(self) -> None:
        """Stop at once."""
        await self._queue.stop()
        await self._informers.stop()

    # What happens.

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        name = obj["metadata"]["name"]
        if new is None or old is None or _placement(old) != _placement(new):
            self._cluster.set_node(name, new)
            self._look_again("node")
            self._look_again_at_those_that_fit(name)

    def _look_again(self, cause: str) -> None:
        for key in self._waiting.helped(cause):
            self._queue.add(key)

    def _volumes_changed(self, claim: Obj | None) -> None:
        """Look again at the pods that volumes may help; at a change of a claim at those that name it."""
        for key in self._waiting.helped("volumes"):
            pod = self._pods.get(*key.split("/"))
            if claim is None or (pod is not None and names(pod, claim)):
                self._queue.add(key)

    def _look_again_at_those_that_fit(self, name: str) -> None:
        node = self._cluster.nodes.get(name)
        for key in self._waiting.others("node") if node is not None else ():
            pod = self._pod(key)
            if node is not None and pod is not None and _fits(pod, name, self._cluster):
                self._queue.add(key)

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            assert old is not None
            self._forget(old)
            self._released(old)
        elif new["spec"].get("nodeName"):
            self._placed(old, new)
        else:
            self._nominate(new)
            if wants_us(new) and (old is None or _wishes(old) != _wishes(new)):
                self._queue.add(_key(new))

    def _nominate(self, pod: Obj) -> None:
        """Keep in mind for whom room is being made."""
        if wants_us(pod) and pod.get("status", {}).get("nominatedNodeName"):
            self._cluster.nominated[pod["metadata"]["uid"]] = PodInfo(pod)
        else:
            self._cluster.nominated.pop(pod["metadata"]["uid"], None)

    def _forget(self, pod: Obj) -> None:
        self._waiting.drop(_key(pod))
        if self._cluster.nominated.pop(pod["metadata"]["uid"], None) is not None:
            self._look_again("pod gone")

    def _placed(self, old: Obj | None, new: Obj) -> None:
        self._waiting.drop(_key(new))
        self._cluster.nominated.pop(new["metadata"]["uid"], None)
        if new.get("status", {}).get("phase") in ENDED:
            self._released(new)
        elif old is None or _claims(old) != _claims(new) or is_ending(old) != is_ending(new):
            self._cluster.set_pod(new)
            if old is None or _claims(old) != _claims(new):
                self._look_again("pod placed")

    def _released(self, pod: Obj) -> None:
        if pod["spec"].get("nodeName"):
            self._cluster.drop_pod(pod["metadata"]["uid"])
            self._look_again("pod gone")

    # What is done.

    def _pod(self, key: str) -> PodInfo | None:
        """Return a pod that still waits for a node from us."""
        obj = self._pods.get(*key.split("/"))
        if obj is None or obj["spec"].get("nodeName") or not wants_us(obj):
            return None
        return PodInfo(obj)

    def _priority(self, key: str) -> int:
        obj = self._pods.get(*key.split("/"))
        return int(obj["spec"].get("priority") or 0) if obj is not None else 0

    async def _schedule(self, key: str) -> None:
        pod = self._pod(key)
        if pod is None:
            return
        verdict = self._judge.decide(pod, self._clock.now())
        if verdict.node is None:
            await self._refuse(pod, verdict)
        elif await self._volumes.choose(pod.obj, verdict.node):
            await self._bind(pod.obj, verdict.node.name)
        else:
            self._waiting.put(key, frozenset({"VolumeBinding"}))

    async def _bind(self, pod: Obj, node: str) -> None:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        self._cluster.set_pod({**pod, "spec": {**pod["spec"], "nodeName": node}})
        try:
            await self._client.create("pods", binding, namespace=meta["namespace"], subresource="binding")
        except ApiError as error:
            self._cluster.drop_pod(meta["uid"])
            if error.code in (404, 409):
                return
            raise
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        await self._recorder.normal(pod, "Scheduled", text, action="Binding")

    async def _refuse(self, pod: PodInfo, verdict: Verdict) -> None:
        self._waiting.put(pod.key, verdict.plugins)
        if verdict.candidate is not None:
            await self._make_room(pod, verdict.candidate)
        await self._recorder.warning(pod.obj, "FailedScheduling", verdict.text, action="Scheduling")
        await self._tell(pod.obj, verdict)
        self._queue.add_after(pod.key, FLUSH_S)

    async def _make_room(self, pod: PodInfo, candidate: Candidate) -> None:
        """Turn out the victims, and whoever waits for the same room with less right."""
        for lesser in list(self._cluster.nominated.values()):
            if lesser.nominated == candidate.node and lesser.priority < pod.priority:
                await self._patch(lesser.obj, {"status": {"nominatedNodeName": None}})
        for victim in candidate.victims:
            if not victim.ending:
                await self._turn_out(victim.obj, pod, candidate.node)

    async def _turn_out(self, victim: Obj, pod: PodInfo, node: str) -> None:
        with tolerating(404, 409):
            await self._patch(victim, disruption(victim, PREEMPTED, self._clock.now()))
            if await self._pods.delete(victim):
                text = f"Preempted by pod {pod.uid} on node {node}"
                await self._recorder.normal(victim, "Preempted", text, action="Preempting")

    async def _tell(self, pod: Obj, verdict: Verdict) -> None:
        """Write the PodScheduled condition and the node on which room is made, if either is new."""
        old, says = condition_of(pod.get("status"), "PodScheduled"), ("False", "Unschedulable", verdict.text)
        status: Obj = {}
        if said(old) != says:
            fresh = renewed(old, "PodScheduled", says, self._clock.now()) | {"lastProbeTime": None}
            if pod["metadata"].get("generation"):
                fresh["observedGeneration"] = pod["metadata"]["generation"]
            status["conditions"] = [fresh]
        if verdict.nominate is not None and verdict.nominate != pod.get("status", {}).get("nominatedNodeName", ""):
            status["nominatedNodeName"] = verdict.nominate or None
        if status:
            await self._patch(pod, {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status})

    async def _patch(self, pod: Obj, patch: Obj) -> None:
        """Change a pod's status."""
        await self._pods.patch(pod, patch, patch_type="strategic", subresource="status")


def wants_us(pod: Obj) -> bool:
    """Tell whether a pod is for this scheduler and may go."""
    spec = pod["spec"]
    if is_ending(pod) or spec.get("schedulingGates"):
        return False
    return spec.get("schedulerName", NAME) == NAME and pod.get("status", {}).get("phase") not in ENDED


def _fits(pod: PodInfo, node: str, cluster: Cluster) -> bool:
    try:
        checks = prepare(pod, cluster)
    except HinderedError:
        return False
    return refuse(pod, cluster.nodes[node], cluster, checks) is None


def _wishes(pod: Obj) -> tuple[object, ...]:
    return pod["spec"], pod["metadata"].get("labels"), wants_us(pod)


def _claims(pod: Obj) -> tuple[object, ...]:
    """Return what of a placed pod decides what it takes from others."""
    return pod["spec"], pod["metadata"].get("labels")


def _placement(node: Obj) -> tuple[object, ...]:
    """Return what of a node decides who fits: heartbeats do not."""
    spec, status = node.get("spec", {}), node.get("status", {})
    labels = node["metadata"].get("labels")
    return labels, spec.get("taints"), spec.get("unschedulable"), status.get("allocatable"), status.get("images")


def _key(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


NEIGHBOURS = frozenset({"PodTopologySpread", "InterPodAffinity"})
CAUSES = {
    "pod gone": NEIGHBOURS | {"NodePorts", "NodeResourcesFit", "VolumeRestrictions"},
    "pod placed": NEIGHBOURS,
    "node": frozenset({"Nodes", "PodTopologySpread"}),
    "volumes": frozenset({"VolumeBinding", "VolumeRestrictions"}),
    "claims": frozenset({"DynamicResources"}),
}
"""Event -> the plugins whose refusals it may lift. A node counts for the others only where the pod fits it."""


class Waiting:
    """The refused pods by key, with the plugins that refused them."""

    def __init__(self) -> None:
        self._refused: dict[str, frozenset[str]] = {}

    def put(self, key: str, plugins: frozenset[str]) -> None:
        """Let a pod wait."""
        self._refused[key] = plugins

    def drop(self, key: str) -> None:
        """Forget a pod."""
        self._refused.pop(key, None)

    def others(self, cause: str) -> list[str]:
        """Return the pods that a cause may not help by itself."""
        return [key for key, plugins in self._refused.items() if not plugins & CAUSES[cause]]

    def helped(self, cause: str) -> list[str]:
        """Return the pods that a cause may help."""
        return [key for key, plugins in self._refused.items() if plugins & CAUSES[cause]]


class Ranked:
    """A line in which the higher priority goes first, and of equals who came first."""

    def __init__(self, priority: Callable[[str], int]) -> None:
        self._priority = priority
        self._heap: list[tuple[int, int, str]] = []
        self._order = itertools.count()

    def append(self, key: str, /) -> None:
        """Take one in."""
        heapq.heappush(self._heap, (-self._priority(key), next(self._order), key))

    def popleft(self) -> str:
        """Let the first one go."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._heap)
