"""Nodes: the taints that follow from their state, and what becomes of one whose kubelet falls silent."""

from __future__ import annotations

from kubesim.clock import Timer
from kubesim.controllers.base import Context, Controller
from kubesim.errors import Obj
from kubesim.times import parse, stamp

SILENT_S = 50.0
LOOK_S = 10.0
LEASES = "kube-node-lease"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OWN_TAINTS = (UNSCHEDULABLE, NOT_READY, UNREACHABLE)
UNKNOWN = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")


class NodeController(Controller):
    """Watches over nodes and their leases."""

    source = "node-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes = self.informers["nodes"]
        self.leases = self.informers["leases.coordination.k8s.io"]
        self.pods = self.informers["pods"]
        self._ready: dict[str, bool] = {}
        self._timer: Timer | None = None
        self._since = self.clock.now()

    def listen(self) -> None:
        """Watch nodes; leases are looked at now and then."""
        self.pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
        self.nodes.add_handler(self._changed)
        self._look()

    def stop_looking(self) -> None:
        """Forget the next look at the leases."""
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None or (old is not None and _facts(old) == _facts(new)):
            return
        self.queue.add(f"/{new['metadata']['name']}")

    def _look(self) -> None:
        for node in self.nodes.items():
            if self._is_silent(node) and _ready(node) != "Unknown":
                self.queue.add(f"/{node['metadata']['name']}")
        self._timer = self.clock.call_later(LOOK_S, self._look)

    def _is_silent(self, node: Obj) -> bool:
        """A silence is counted from our own start at the earliest: we may have been away ourselves."""
        lease = self.leases.get(LEASES, node["metadata"]["name"])
        heard = max(parse(lease["spec"]["renewTime"]), self._since) if lease is not None else self._since
        return (self.clock.now() - heard).total_seconds() > SILENT_S

    async def sync(self, namespace: str, name: str) -> None:
        """Mark a silent node and set the taints that its state asks for."""
        node = self.nodes.get("", name)
        if node is None:
            return
        if self._is_silent(node) and _ready(node) != "Unknown":
            node = await self._mark_unknown(node)
        await self._follow_readiness(name, _ready(node) == "True")
        old = node.get("spec", {}).get("taints") or []
        wanted = self._taints(node, old)
        if [(t["key"], t["effect"]) for t in old] != [(t["key"], t["effect"]) for t in wanted]:
            patch = {"spec": {"taints": wanted or None}}
            self.nodes.note(await self.client.patch("nodes", name, "", patch))

    async def _mark_unknown(self, node: Obj) -> Obj:
        status, reason, message = UNKNOWN
        now = stamp(self.clock.now())
        change = {"status": status, "reason": reason, "message": message, "lastTransitionTime": now}
        conditions = [{**condition, **change} for condition in node["status"].get("conditions", ())]
        patch = {"status": {"conditions": conditions}}
        name = node["metadata"]["name"]
        answer = await self.client.patch("nodes", name, "", patch, subresource="status")
        self.nodes.note(answer)
        await self.recorder.normal(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        return answer

    async def _follow_readiness(self, name: str, ready: bool) -> None:
        """When a node stops being ready, so do its pods."""
        before = self._ready.get(name, ready)
        self._ready[name] = ready
        if ready or not before:
            return
        for pod in self.pods.by("node", name):
            condition = next((c for c in pod.get("status", {}).get("conditions") or () if c["type"] == "Ready"), None)
            if condition is None or condition["status"] != "True":
                continue
            fresh = {**condition, "status": "False", "lastTransitionTime": stamp(self.clock.now())}
            conditions = [fresh if c is condition else c for c in pod["status"]["conditions"]]
            meta, patch = pod["metadata"], {"status": {"conditions": conditions}}
            answer = await self.client.patch("pods", meta["name"], meta["namespace"], patch, subresource="status")
            self.pods.note(answer)
            await self.recorder.warning(pod, "NodeNotReady", "Node is not ready")

    def _taints(self, node: Obj, old: list[Obj]) -> list[Obj]:
        kept = {(taint["key"], taint["effect"]): taint for taint in old}
        wanted = [taint for taint in old if taint["key"] not in OWN_TAINTS]
        needed = [(UNSCHEDULABLE, "NoSchedule")] if node.get("spec", {}).get("unschedulable") else []
        key = {"False": NOT_READY, "Unknown": UNREACHABLE}.get(_ready(node))
        needed += [(key, "NoSchedule"), (key, "NoExecute")] if key else []
        now = stamp(self.clock.now())
        return wanted + [kept.get(t) or {"key": t[0], "effect": t[1], "timeAdded": now} for t in needed]


def _ready(node: Obj) -> str:
    conditions = node.get("status", {}).get("conditions") or ()
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "True")


def _facts(node: Obj) -> tuple[object, ...]:
    spec = node.get("spec", {})
    return spec.get("unschedulable"), spec.get("taints"), _ready(node)
