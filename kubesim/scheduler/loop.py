"""The scheduling loop: a queue of pods without a node, and another look at the refused ones after a change."""

from __future__ import annotations

from datetime import datetime

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.informer import Informer, WorkQueue
from kubesim.recorder import Recorder
from kubesim.scheduler import messages
from kubesim.scheduler.filters import refuse
from kubesim.scheduler.scores import best
from kubesim.scheduler.state import ENDED, Cluster
from kubesim.scheduler.volumes import Volumes
from kubesim.times import stamp

NAME = "default-scheduler"
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 10.0
FLUSH_S = 300.0


class Scheduler:
    """Binds pods to nodes."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._cluster = Cluster()
        self._pods = Informer(client, clock, "pods")
        self._nodes = Informer(client, clock, "nodes")
        self._volumes = self._cluster.volumes = Volumes(client, clock)
        self._recorder = Recorder(client, clock, NAME, series=True)
        self._queue = WorkQueue(clock, self._schedule, "scheduler")
        self._refused: dict[str, tuple[int, datetime]] = {}
        """Key of a pod that fits nowhere -> (attempts, time of the last)."""

    async def start(self) -> None:
        """Fill the caches and begin."""
        await self._nodes.start()
        await self._volumes.start()
        await self._pods.start()
        self._volumes.on_change(self._volumes_changed)
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        self._queue.start()

    async def stop(self) -> None:
        """Stop at once."""
        await self._queue.stop()
        await self._pods.stop()
        await self._nodes.stop()
        await self._volumes.stop()

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        obj = new or old
        assert obj is not None
        self._cluster.set_node(obj["metadata"]["name"], new)
        if new is not None and (old is None or _placement(old) != _placement(new)):
            self._look_again()

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            assert old is not None
            self._released(old)
            self._refused.pop(_key(old), None)
        elif new["spec"].get("nodeName"):
            self._placed(old, new)
        elif _wants_us(new) and (old is None or old["spec"] != new["spec"]):
            self._queue.add(_key(new))

    def _placed(self, old: Obj | None, new: Obj) -> None:
        self._refused.pop(_key(new), None)
        if new.get("status", {}).get("phase") in ENDED:
            self._released(new)
        elif (
            old is None
            or old["spec"] != new["spec"]
            or old["metadata"].get("labels") != new["metadata"].get("labels")
        ):
            self._cluster.set_pod(new)
            self._look_again_for_affinity()

    def _released(self, pod: Obj) -> None:
        if pod["spec"].get("nodeName"):
            self._cluster.drop_pod(pod["metadata"]["uid"])
            self._look_again()

    def _look_again_for_affinity(self) -> None:
        """A new pod helps only those who want to be near one."""
        for key in self._refused:
            pod = self._pods.get(*key.split("/"))
            if pod is not None and (pod["spec"].get("affinity") or pod["spec"].get("topologySpreadConstraints")):
                self._retry(key)

    def _volumes_changed(self) -> None:
        """A change of claims, volumes or classes may help those who have volumes."""
        for key in self._refused:
            pod = self._pods.get(*key.split("/"))
            if pod is not None and pod["spec"].get("volumes"):
                self._queue.add(key)

    def _look_again(self) -> None:
        for key in self._refused:
            self._retry(key)

    def _retry(self, key: str) -> None:
        attempts, at = self._refused[key]
        backoff = min(FIRST_BACKOFF_S * 2 ** (attempts - 1), LONGEST_BACKOFF_S)
        waited = (self._clock.now() - at).total_seconds()
        self._queue.add_after(key, max(0.0, backoff - waited))

    async def _schedule(self, key: str) -> None:
        pod = self._pods.get(*key.split("/"))
        if pod is None or pod["spec"].get("nodeName") or not _wants_us(pod):
            return
        nodes = list(self._cluster.nodes.values())
        if hindrance := self._volumes.hindrance(pod):
            await self._refuse(key, pod, f"0/{len(nodes)} nodes are available: {hindrance}. not found")
            return
        refusals = {node.name: refuse(pod, node, self._cluster) for node in nodes}
        fitting = [node for node in nodes if refusals[node.name] is None]
        if fitting:
            chosen = best(pod, fitting, self._cluster)
            if await self._volumes.choose(pod, chosen):
                await self._bind(pod, chosen.name)
            else:
                self._refused[key] = (1, self._clock.now())
            return
        preempts = pod["spec"].get("preemptionPolicy", "PreemptLowerPriority") != "Never"
        text = messages.unschedulable([refusal for refusal in refusals.values() if refusal], preempts=preempts)
        await self._refuse(key, pod, text)

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

    async def _refuse(self, key: str, pod: Obj, text: str) -> None:
        attempts = self._refused.get(key, (0, self._clock.now()))[0] + 1
        self._refused[key] = (attempts, self._clock.now())
        await self._recorder.warning(pod, "FailedScheduling", text, action="Scheduling")
        await self._tell(pod, text)
        self._queue.add_after(key, FLUSH_S)

    async def _tell(self, pod: Obj, text: str) -> None:
        """Write the PodScheduled condition if it says something new."""
        conditions = pod.get("status", {}).get("conditions") or []
        old = next((item for item in conditions if item["type"] == "PodScheduled"), None)
        if old is not None and old.get("message") == text:
            return
        now = stamp(self._clock.now())
        fresh: Obj = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"] if old and old["status"] == "False" else now,
        }
        if pod["metadata"].get("generation"):
            fresh["observedGeneration"] = pod["metadata"]["generation"]
        others = [item for item in conditions if item["type"] != "PodScheduled"]
        meta = pod["metadata"]
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [*others, fresh]}}
        await self._client.patch("pods", meta["name"], meta["namespace"], patch, subresource="status")


def _wants_us(pod: Obj) -> bool:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp") or spec.get("schedulingGates"):
        return False
    return spec.get("schedulerName", NAME) == NAME and pod.get("status", {}).get("phase") not in ENDED


def _placement(node: Obj) -> tuple[object, ...]:
    """What of a node decides who fits: heartbeats do not."""
    spec = node.get("spec", {})
    labels = node["metadata"].get("labels")
    return labels, spec.get("taints"), spec.get("unschedulable"), node.get("status", {}).get("allocatable")


def _key(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
