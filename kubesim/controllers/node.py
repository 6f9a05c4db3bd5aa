"""Nodes: the taints and labels that follow from their state, and the end of pods whose node is lost, gone or tainted.

A node whose kubelet is not heard of is declared lost; pods that do not bear its taints are deleted, those of nodes
that are gone are collected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubesim.conditions import condition_of
from kubesim.controllers import pods
from kubesim.controllers.base import Context, Controller, Keeper, is_ending, latest, queue_key
from kubesim.errors import Obj, tolerating
from kubesim.informer import Informer
from kubesim.scheduler.terms import tolerates
from kubesim.schema.paths import is_true
from kubesim.times import parse, stamp

LOOK_S = 5.0
SILENT_S = 50.0
NEVER_HEARD_S = 60.0
"""The seconds for which a node may be silent, and how long a new one may be that has never reported."""
LEASES = "kube-node-lease"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
"""Condition and status -> taint."""
EVICTING = {"False": NOT_READY, "Unknown": UNREACHABLE}
"""Status of the condition Ready -> the taint that turns pods out."""
OWN_TAINTS = {"NoSchedule": {*TAINTS.values(), UNSCHEDULABLE}, "NoExecute": {*EVICTING.values()}}
REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
OLD_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}
TTL = "node.alpha.kubernetes.io/ttl"
"""For how many seconds a kubelet may keep secrets and config maps; none in a cluster of up to a hundred nodes."""
COLLECT_S = 20.0
QUARANTINE_S = 40.0
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
TAINTED = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
NODE_GONE = ("DeletionByPodGC", "PodGC: node no longer exists")


@dataclass(slots=True)
class Health:
    """The last sign of life of a node, and its time."""

    heard: datetime
    mark: tuple[str, str]


class NodeController(Controller):
    """Watches over nodes and their leases. Its queue holds ``/node``, and ``/`` for a look at all of them."""

    source = "node-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informers["nodes"]
        self.leases = self.informers["leases.coordination.k8s.io"]
        self.pods = self.informers["pods"]
        self._health: dict[str, Health] = {}
        self._known: dict[str, Obj] = {}
        self._cut_off = False
        """True when all nodes were lost at the last look: the control plane is cut off then, and turns no pod out."""

    def listen(self) -> None:
        """Watch nodes; their health is looked at now and then."""
        self.pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
        self.nodes.add_handler(self._changed)
        self.queue.add("/")

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and (old is None or _facts(old) != _facts(new)):
            self.queue.add(f"/{new['metadata']['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Set what follows from a node's state at once; without a name, look at the health of all nodes."""
        if not name:
            await self._look_at_all()
            return
        node = self.nodes.get("", name)
        if node is not None:
            await self._set_taints(node, "NoSchedule", _wanted(node))
            await self._set_metadata(name)

    # What follows from a node's state.

    async def _set_taints(self, node: Obj, effect: str, wanted: list[str]) -> None:
        """Make a node's own taints of one effect those that are wanted."""
        node = self.nodes.get("", node["metadata"]["name"]) or node
        old = node.get("spec", {}).get("taints") or []
        ours = [taint["key"] for taint in old if taint["effect"] == effect and taint["key"] in OWN_TAINTS[effect]]
        if sorted(ours) == sorted(wanted):
            return
        kept = [t for t in old if t["effect"] != effect or t["key"] not in OWN_TAINTS[effect] or t["key"] in wanted]
        now = stamp(self.clock.now())
        fresh = [{"key": key, "effect": effect, "timeAdded": now} for key in wanted if key not in ours]
        await self._patch(node, {"spec": {"taints": [*kept, *fresh] or None}})

    async def _set_metadata(self, name: str) -> None:
        node = self.nodes.get("", name)
        if node is None:
            return
        labels = node["metadata"].get("labels") or {}
        wanted = {
            old: labels[new] for new, old in OLD_LABELS.items() if new in labels and labels.get(old) != labels[new]
        }
        metadata: Obj = {"labels": wanted} if wanted else {}
        if (node["metadata"].get("annotations") or {}).get(TTL) != "0":
            metadata["annotations"] = {TTL: "0"}
        if metadata:
            await self._patch(node, {"metadata": metadata})

    async def _patch(self, node: Obj, patch: Obj, subresource: str = "") -> None:
        with tolerating(404):
            await self.nodes.patch(node, patch, subresource=subresource)

    # The health of all nodes.

    async def _look_at_all(self) -> None:
        self.queue.add_after("/", LOOK_S)
        await self._greet()
        for node in self.nodes.items():
            await self._look_at(node)
        nodes = self.nodes.items()
        before, self._cut_off = self._cut_off, bool(nodes) and not any(is_true(node, "Ready") for node in nodes)
        if before and not self._cut_off:
            for health in self._health.values():
                health.heard = self.clock.now()
        for node in nodes:
            await self._turn_out(node)

    async def _greet(self) -> None:
        """Say which nodes are new, and which have gone."""
        nodes = {node["metadata"]["name"]: node for node in self.nodes.items()}
        for name in nodes.keys() - self._known.keys():
            await self.tell(_bare(nodes[name]), "RegisteredNode")
        for name in self._known.keys() - nodes.keys():
            await self.tell(_bare(self._known[name]), "RemovingNode")
            self._health.pop(name, None)
        self._known = nodes

    async def _look_at(self, node: Obj) -> None:
        """Note what is heard of a node; declare it lost if it has been silent for too long."""
        name, before = node["metadata"]["name"], ready(node)
        silent = self._silence(node)
        if silent > (SILENT_S if before else NEVER_HEARD_S) and before != "Unknown":
            await self._declare_lost(node)
            if before == "True":
                await self.tell(_bare(node), "NodeNotReady")
                await self._mark_pods(name)

    def _silence(self, node: Obj) -> float:
        """Return for how many seconds nothing has been heard of a node, as far as we know ourselves."""
        name, now = node["metadata"]["name"], self.clock.now()
        lease = self.leases.get(LEASES, name)
        beat = condition_of(node.get("status"), "Ready").get("lastHeartbeatTime")
        mark = (beat or "", lease["spec"].get("renewTime", "") if lease is not None else "")
        health = self._health.get(name)
        if health is None:
            heard = now if any(mark) else parse(node["metadata"]["creationTimestamp"])
            health = self._health[name] = Health(heard, mark)
        elif health.mark != mark:
            health.heard, health.mark = now, mark
        return (now - health.heard).total_seconds()

    async def _declare_lost(self, node: Obj) -> None:
        now = stamp(self.clock.now())
        found = {condition["type"]: condition for condition in _conditions(node)}
        for kind in REPORTED:
            old = found.get(kind)
            if old is None:
                born = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"]}
                found[kind] = {"type": kind, **_lost(NEVER, now), **born}
            elif old["status"] != "Unknown":
                found[kind] = {**old, **_lost(STOPPED, now)}
        await self._patch(node, {"status": {"conditions": list(found.values())}}, "status")

    async def _mark_pods(self, name: str) -> None:
        """Mark the pods of a lost node as not ready."""
        for pod in self.pods.by("node", name):
            condition = condition_of(pod.get("status"), "Ready")
            if condition.get("status", "False") == "False":
                continue
            fresh = {**condition, "status": "False", "lastTransitionTime": stamp(self.clock.now())}
            patch = {"status": {"conditions": [fresh]}}
            await self.pods.patch(pod, patch, patch_type="strategic", subresource="status")
            await self.recorder.warning(pod, "NodeNotReady", "Node is not ready")

    async def _turn_out(self, node: Obj) -> None:
        """Give a node that is not ready the taint that turns its pods out, unless all nodes are lost."""
        key = EVICTING.get(ready(node), "")
        if not key or self._cut_off:
            await self._set_taints(node, "NoExecute", [])
            return
        await self._set_taints(node, "NoSchedule", _wanted(node))
        await self._set_taints(node, "NoExecute", [key])


def ready(node: Obj) -> str:
    """Return the status of the condition Ready; empty where nobody has reported it."""
    return str(condition_of(node.get("status"), "Ready").get("status", ""))


def _conditions(node: Obj) -> list[Obj]:
    found: list[Obj] = node.get("status", {}).get("conditions") or []
    return found


def _wanted(node: Obj) -> list[str]:
    """Return the taints that keep pods off a node in this state."""
    found = [TAINTS[c["type"], c["status"]] for c in _conditions(node) if (c["type"], c["status"]) in TAINTS]
    return [*found, UNSCHEDULABLE] if node.get("spec", {}).get("unschedulable") else found


def _lost(why: tuple[str, str], now: str) -> Obj:
    return {"status": "Unknown", "reason": why[0], "message": why[1], "lastTransitionTime": now}


def _facts(node: Obj) -> tuple[object, ...]:
    spec, meta = node.get("spec", {}), node["metadata"]
    states = [(condition["type"], condition["status"]) for condition in _conditions(node)]
    return spec.get("unschedulable"), spec.get("taints"), states, meta.get("labels"), meta.get("annotations")


def _bare(node: Obj) -> Obj:
    """Return a node as these events name it: without a version."""
    meta = {name: node["metadata"][name] for name in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


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
                await self.tell(_named_only(pod), "TaintManagerEviction", what="Cancelling deletion of", pod=key)
            return
        due = self._due.setdefault(key, now + wait) if wait else now
        if due > now:
            self.queue.add_after(key, due - now)
            return
        await self.tell(_named_only(pod), "TaintManagerEviction", what="Marking for deletion", pod=key)
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


def _named_only(pod: Obj) -> Obj:
    """Return a pod as these events name it: without version and uid, so that its description does not show them."""
    meta = {name: value for name, value in pod["metadata"].items() if name in ("namespace", "name")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
