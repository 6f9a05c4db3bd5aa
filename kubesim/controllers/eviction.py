"""What becomes of pods whose node turns them out, is gone, or never was: taint eviction, the collection of pods."""

from __future__ import annotations

from datetime import datetime

from kubesim.controllers import pods
from kubesim.controllers.base import Context, Keeper, is_ending, latest, queue_key
from kubesim.controllers.node import ready
from kubesim.errors import Obj, tolerating
from kubesim.informer import Informer
from kubesim.scheduler.terms import tolerates
from kubesim.times import stamp

COLLECT_S = 20.0
QUARANTINE_S = 40.0
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
NODE_GONE = ("DeletionByPodGC", "PodGC: node no longer exists")


def disruption(pod: Obj, why: tuple[str, str], now: datetime) -> Obj:
    """Return the (strategic) patch that says in a pod's status why it is taken away: a reason and a message."""
    reason, message = why
    fresh: Obj = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    fresh |= {"lastProbeTime": None, "lastTransitionTime": stamp(now)}
    if pod["metadata"].get("generation"):
        fresh["observedGeneration"] = pod["metadata"]["generation"]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [fresh]}}


async def patch_status(pods: Informer, pod: Obj, patch: Obj) -> None:
    """Patch (strategically) the status of a pod that may be gone already."""
    with tolerating(404, 409):
        await pods.patch(pod, patch, patch_type="strategic", subresource="status")


class TaintEvictionController(Keeper):
    """Deletes the pods that do not bear a NoExecute taint of their node, or bear it only for a while."""

    source = "taint-eviction-controller"
    resource = "pods"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informers["nodes"]
        self._due: dict[str, float] = {}
        """Key of a pod that must go -> when (seconds since 1970)."""

    def listen(self) -> None:
        """Watch the taints of nodes, and which pods come to them."""
        self.own.add_index("node", _node_name)
        self.nodes.add_handler(self._node_changed)
        self.own.add_handler(self._pod_changed)

    def _node_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or (old is not None and _no_execute(old) == _no_execute(new)):
            return
        for pod in self.own.by("node", new["metadata"]["name"]):
            self.queue.add(queue_key(pod))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            self._due.pop(queue_key(latest(old, new)), None)
        elif old is None or old["spec"] != new["spec"]:
            self.queue.add(queue_key(new))

    async def look_after(self, pod: Obj) -> None:
        """Delete one pod, now or later, or let it off."""
        if is_ending(pod) or not pod["spec"].get("nodeName"):
            return
        node = self.nodes.get("", pod["spec"]["nodeName"])
        wait = patience(pod, _no_execute(node)) if node is not None else None
        key, now = queue_key(pod), self.clock.now().timestamp()
        if wait is None:
            if self._due.pop(key, None) is not None:
                await self.tell(_bare(pod), "TaintManagerEviction", what="Cancelling deletion of", pod=key)
            return
        due = self._due.setdefault(key, now + wait) if wait else now
        if due > now:
            self.queue.add_after(key, due - now)
            return
        await self.tell(_bare(pod), "TaintManagerEviction", what="Marking for deletion", pod=key)
        await patch_status(self.own, pod, disruption(pod, TAINTED, self.clock.now()))
        self._due.pop(key, None)
        await self.own.delete(pod)


def patience(pod: Obj, taints: list[Obj]) -> float | None:
    """Return for how many seconds a pod bears its node's NoExecute taints; None for ever."""
    limits = []
    for taint in taints:
        used = [entry for entry in pod["spec"].get("tolerations") or () if tolerates([entry], taint)]
        if not used:
            return 0.0
        limits += [entry["tolerationSeconds"] for entry in used if entry.get("tolerationSeconds") is not None]
    return max(0.0, float(min(limits))) if limits else None


class PodCollector(Keeper):
    """Removes pods that nobody looks after: on nodes that are gone, or deleted before they had one.

    Its queue holds ``namespace/pod``, and ``/`` for a look at all of them.
    """

    source = "pod-garbage-collector"
    resource = "pods"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informers["nodes"]
        self._missing: dict[str, float] = {}
        """Node that is gone -> since when it has been missed."""

    def listen(self) -> None:
        """Look around now and then."""
        self.own.add_index("node", _node_name)
        self.queue.add_after("/", COLLECT_S)

    async def sync(self, namespace: str, name: str) -> None:
        """Remove one pod; without a name, look around."""
        if name:
            await super().sync(namespace, name)
        else:
            self._look()

    def _look(self) -> None:
        self.queue.add_after("/", COLLECT_S)
        now = self.clock.now().timestamp()
        for pod in self.own.items():
            name = pod["spec"].get("nodeName", "")
            if name and self.nodes.get("", name) is None:
                if now - self._missing.setdefault(name, now) >= QUARANTINE_S:
                    self.queue.add(queue_key(pod))
            elif is_ending(pod) and (not name or _out_of_service(self.nodes.get("", name))):
                self.queue.add(queue_key(pod))
        self._missing = {name: at for name, at in self._missing.items() if self.nodes.get("", name) is None}

    async def look_after(self, pod: Obj) -> None:
        """Remove one pod at once."""
        if pods.phase_of(pod) not in pods.ENDED:
            node = pod["spec"].get("nodeName", "")
            lost = bool(node) and self.nodes.get("", node) is None
            patch: Obj = disruption(pod, NODE_GONE, self.clock.now()) if lost else {"status": {}}
            patch["status"]["phase"] = "Failed"  # nobody else will say how it ended
            await patch_status(self.own, pod, patch)
        await self.own.delete(pod, grace_seconds=0)


def _out_of_service(node: Obj | None) -> bool:
    """Tell whether an administrator has declared a node that is not ready to be gone for good."""
    taints = node.get("spec", {}).get("taints") or () if node is not None else ()
    return node is not None and ready(node) != "True" and any(t["key"] == OUT_OF_SERVICE for t in taints)


def _no_execute(node: Obj) -> list[Obj]:
    return [taint for taint in node.get("spec", {}).get("taints") or () if taint["effect"] == "NoExecute"]


def _node_name(pod: Obj) -> list[str]:
    return [pod["spec"].get("nodeName", "")]


def _bare(pod: Obj) -> Obj:
    """Return a pod as these events name it: without version and uid, so that its description does not show them."""
    meta = {name: value for name, value in pod["metadata"].items() if name in ("namespace", "name")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
