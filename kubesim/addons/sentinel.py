"""NVSentinel's modules on a node whose GPUs have failed: fault-quarantine cordons it, node-drainer empties it,
fault-remediation orders a reboot or a reset as its error asks, janitor carries that out.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Any

import orjson

from kubesim.addons import health_events
from kubesim.addons.operator import Operator, ensure, settings
from kubesim.addons.sentinel_monitor import CHECK, UUID
from kubesim.conditions import condition_of
from kubesim.controllers.base import Context, Controller, is_ending
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.gpu.board import NoReset
from kubesim.gpu.xids import USER
from kubesim.kubelet.duties import Post
from kubesim.times import parse, stamp

STATE = "dgxc.nvidia.com/nvsentinel-state"
MANAGED = "k8saas.nvidia.com/ManagedByNVSentinel"
CORDON, UNCORDON = "k8saas.nvidia.com/cordon-", "k8saas.nvidia.com/uncordon-"
SELF = "NVSentinel"
RULES = "Syslog-fatal-error-ruleset"
EVENT = "quarantineHealthEvent"
CORDONED, BEFORE, BY_HAND = f"{EVENT}IsCordoned", f"{EVENT}CordonPreExisting", "quarantinedNodeUncordonedManually"
STAMP = "%Y-%m-%dT%H-%M-%SZ"
BREAKER = {"enabled": True, "percentage": 50, "duration": "5m"}
BREAKER_STATUS = "circuit-breaker"
RECHECK_S = 10.0
PRESENT = "nvidia.com/gpu.present"
SYSTEM = (
    r"^(nvsentinel|kube-.*|gpu-operator|network-operator|monitoring|observability|cnrm-system|ingress-nginx|"
    r"mpi-operator)$"
)


def fatal(node: Obj) -> str:
    """Return the message of a node's fatal condition; empty where there is none."""
    found = node.get("status", {}).get("conditions") or ()
    return next((item["message"] for item in found if item["type"] == CHECK and item["status"] == "True"), "")


class Module(Controller):
    """What the modules share: nodes, and their labels as the state of what is done to them."""

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self.post = post
        self.nodes = self.informers["nodes"]

    def listen(self) -> None:
        """Watch the nodes."""
        self.watch_own(self.nodes)

    async def change(self, name: str, metadata: Obj, **spec: Any) -> None:
        """Change a node's labels and annotations (None: take away), and its spec."""
        patch = {"metadata": metadata, **({"spec": spec} if spec else {})}
        with tolerating(404):
            await self.nodes.patch({"metadata": {"name": name}}, patch)
            if STATE in (labels := metadata.get("labels") or {}):
                await health_events.follow(self.post, self.client, name, labels[STATE])

    def say(self, message: str, **fields: str) -> None:
        """Log something."""
        self.post.say(orjson.dumps({"level": "INFO", "msg": message, **fields}).decode())

    async def enter(self, name: str, state: str | None) -> None:
        """Put a node into a state."""
        self.say("Node state changed", node=name, state=str(state))
        await self.change(name, {"labels": {STATE: state}})


class Quarantine(Module):
    """Cordons a node with a fatal condition, and uncordons it when that is gone."""

    source = "fault-quarantine"

    async def sync(self, namespace: str, name: str) -> None:
        """Bring one node to what its condition asks for."""
        node = self.nodes.get("", name)
        if node is None:
            return
        notes, labels = node["metadata"].get("annotations") or {}, node["metadata"].get("labels") or {}
        message, held = fatal(node), EVENT in notes
        if not await self._closed():
            return
        if not message and held:
            await self._release(node)
        elif not message and BY_HAND in notes:
            await self.change(name, {"annotations": {BY_HAND: None}})
        elif held and CORDONED in notes and not node["spec"].get("unschedulable"):
            gone = {EVENT: None, CORDONED: None, BEFORE: None, BY_HAND: "True"}
            await self.change(name, {"annotations": gone, "labels": {STATE: None}})
        elif message and not held and BY_HAND not in notes and labels.get(MANAGED) != "false":
            await self._cordon(node, message)

    async def _cordon(self, node: Obj, message: str) -> None:
        if await self._trips():
            self.say("Circuit breaker is tripped, no node is cordoned", node=node["metadata"]["name"])
            return
        now = self.clock.now()
        event = {"version": 1, "agent": "syslog-health-monitor", "componentClass": "GPU", "checkName": CHECK}
        event |= {"isFatal": True, "message": message, "nodeName": node["metadata"]["name"]}
        notes = {EVENT: orjson.dumps([event | {"generatedTimestamp": stamp(now)}]).decode(), CORDONED: "True"}
        if node["spec"].get("unschedulable"):
            notes[BEFORE] = "True"
        labels = {f"{CORDON}by": SELF, f"{CORDON}reason": RULES, f"{CORDON}timestamp": now.strftime(STAMP)}
        gone = {f"{UNCORDON}by": None, f"{UNCORDON}timestamp": None}
        metadata = {"annotations": notes, "labels": {**labels, **gone, STATE: "quarantined"}}
        await self.change(node["metadata"]["name"], metadata, unschedulable=True)
        self.say("Node cordoned", node=node["metadata"]["name"], ruleset=RULES)

    async def _release(self, node: Obj) -> None:
        notes = node["metadata"].get("annotations") or {}
        labels = {f"{UNCORDON}by": SELF, f"{UNCORDON}timestamp": self.clock.now().strftime(STAMP), STATE: None}
        labels |= {f"{CORDON}by": None, f"{CORDON}reason": None, f"{CORDON}timestamp": None}
        metadata = {"annotations": {EVENT: None, CORDONED: None, BEFORE: None}, "labels": labels}
        more = {} if BEFORE in notes else {"unschedulable": None}
        await self.change(node["metadata"]["name"], metadata, **more)
        self.say("Node uncordoned", node=node["metadata"]["name"])

    # The circuit breaker.

    async def _trips(self) -> bool:
        """Whether one more cordon would be too many for the time; then nothing is done until somebody resets it."""
        config = {**BREAKER, **(await settings(self.post, "config.toml")).get("circuitBreaker", {})}
        if not config["enabled"]:
            return False
        since = self.clock.now() - timedelta(seconds=_seconds(str(config["duration"])))
        nodes = [node for node in self.nodes.items() if (node["metadata"].get("labels") or {}).get(PRESENT) == "true"]
        recent = sum(_cordoned_at(node) >= since for node in nodes)
        if recent * 100 < float(config["percentage"]) * len(nodes) or not nodes:
            return False
        await self._write_breaker("TRIPPED")
        return True

    async def _closed(self) -> bool:
        try:
            found = await self.client.get("configmaps", BREAKER_STATUS, self._space)
        except ApiError as error:
            if error.code != 404:
                raise
            return True
        return (found.get("data") or {}).get("status") != "TRIPPED"

    async def _write_breaker(self, status: str) -> None:
        meta, said = {"name": BREAKER_STATUS, "namespace": self._space}, {"data": {"status": status}}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, **said}
        if await ensure(self.client, "configmaps", obj) is None:
            await self.client.patch("configmaps", BREAKER_STATUS, self._space, said)

    @property
    def _space(self) -> str:
        return str(self.post.pod["metadata"]["namespace"])


class Drainer(Module):
    """Empties quarantined nodes as the mode of each pod's namespace says."""

    source = "node-drainer"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context, post)
        self._pods = self.informers["pods"]
        self._pods.add_index("node", lambda pod: [pod["spec"]["nodeName"]] if pod["spec"].get("nodeName") else [])

    async def sync(self, namespace: str, name: str) -> None:
        """Do what comes next for a node."""
        node = self.nodes.get("", name)
        state = (node["metadata"].get("labels") or {}).get(STATE) if node is not None else None
        if node is None or state not in ("quarantined", "draining"):
            return
        config = await settings(self.post, "config.toml")
        left = [pod for pod in self._pods.by("node", name) if _is_users(pod, config)]
        if not left:
            await self.enter(name, "drain-succeeded")
            return
        if state == "quarantined":
            await self.enter(name, "draining")
        for pod in left:
            await self._drain(pod, config, _since(node))
        waiting = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in left if not is_ending(pod)]
        if waiting:
            text = f"Waiting for following pods to finish: {waiting}".replace("'", "")
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}}
            await self.recorder.normal(node, "AwaitingPodCompletion", text)
        self.queue.add_after(f"/{name}", RECHECK_S)

    async def _drain(self, pod: Obj, config: dict[str, Any], since: datetime) -> None:
        """Do to a pod what its namespace's mode says."""
        meta, passed = pod["metadata"], (self.clock.now() - since).total_seconds()
        mode = _mode(meta["namespace"], config)
        limits = {
            "DeleteAfterTimeout": 60 * float(config.get("deleteAfterTimeoutMinutes", 60)),
            "Immediate": float(config.get("evictionTimeoutInSeconds", 60)) + RECHECK_S,
        }
        if passed >= limits.get(mode, float("inf")):
            with tolerating(404, 409):
                await self.client.delete("pods", meta["name"], meta["namespace"], grace_seconds=0, uid=meta["uid"])
        elif mode == "Immediate" and not is_ending(pod):
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
            with tolerating(404, 429):
                await self.client.create("pods", body, namespace=meta["namespace"], subresource="eviction")


def quarantine(post: Post) -> Operator:
    """Begin fault-quarantine."""
    return Operator(post, Quarantine)


def drainer(post: Post) -> Operator:
    """Begin node-drainer."""
    return Operator(post, Drainer)


def _is_users(pod: Obj, config: dict[str, Any]) -> bool:
    """Whether a pod must leave: no daemon, not of the system, not over."""
    meta = pod["metadata"]
    if any(owner["kind"] in ("DaemonSet", "Node") for owner in meta.get("ownerReferences") or ()):
        return False
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return re.fullmatch(str(config.get("systemNamespaces", SYSTEM)), meta["namespace"]) is None


def _mode(namespace: str, config: dict[str, Any]) -> str:
    entries = config.get("userNamespaces") or [{"name": "*", "mode": "AllowCompletion"}]
    found = [entry for entry in entries if entry.get("name") in (namespace, "*")]
    return str(min(found, key=lambda entry: entry["name"] == "*")["mode"]) if found else "AllowCompletion"


def _since(node: Obj) -> datetime:
    """Return when a node was quarantined."""
    events = orjson.loads((node["metadata"].get("annotations") or {}).get(EVENT) or b"[{}]")
    return parse(events[0].get("generatedTimestamp") or node["metadata"]["creationTimestamp"])


def _cordoned_at(node: Obj) -> datetime:
    """Return when NVSentinel cordoned a node; long ago where it did not."""
    text = (node["metadata"].get("labels") or {}).get(f"{CORDON}timestamp", "")
    try:
        return datetime.strptime(text + "+0000", STAMP + "%z")
    except ValueError:
        return datetime.fromtimestamp(0, tz=parse(node["metadata"]["creationTimestamp"]).tzinfo)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+)([smh])", text)
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else 300.0


GROUP = "janitor.dgxc.nvidia.com"
REBOOTS, RESETS = f"rebootnodes.{GROUP}", f"gpuresets.{GROUP}"
KINDS = {"RESTART_BM": "RebootNode", "RESTART_VM": "RebootNode", "COMPONENT_RESET": "GPUReset"}
DONE = {"RebootNode": "NodeReady", "GPUReset": "Complete"}
ACTION = re.compile(r"Recommended Action=(\w+);")
ORDER = ("RESTART_BM", "RESTART_VM", "COMPONENT_RESET")
"""The stronger action heals what the weaker one would."""
REBOOTING_S = 10.0


class Remediation(Module):
    """Orders the repair of emptied nodes."""

    source = "fault-remediation"

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context, post)
        self._orders = [self.informers[REBOOTS], self.informers[RESETS]]

    def listen(self) -> None:
        """Watch nodes, and orders until they are done."""
        super().listen()
        for orders in self._orders:
            orders.add_handler(lambda old, new: self.queue.add(f"/{(new or old or {})['spec']['nodeName']}"))

    async def sync(self, namespace: str, name: str) -> None:
        """Do what comes next for a node."""
        node = self.nodes.get("", name)
        state = (node["metadata"].get("labels") or {}).get(STATE) if node is not None else None
        if node is None or not (message := fatal(node)):
            return
        if state == "drain-succeeded":
            await self._order(node, message)
        elif state == "remediating":
            mine = [item for orders in self._orders for item in orders.items() if item["spec"]["nodeName"] == name]
            if any(_is_done(item) and item["metadata"]["name"] == _name(node, message) for item in mine):
                await self.enter(name, "remediation-succeeded")

    async def _order(self, node: Obj, message: str) -> None:
        name, wanted = node["metadata"]["name"], set(ACTION.findall(message))
        action = next((item for item in ORDER if item in wanted), "")
        if not action or wanted - set(ORDER):
            await self.enter(name, "remediation-failed")
            return
        kind, spec = KINDS[action], {"nodeName": name}
        more = {"selector": {"uuids": sorted(set(UUID.findall(message)))}} if kind == "GPUReset" else {"force": False}
        obj = {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": {"name": _name(node, message)}}
        await self.enter(name, "remediating")
        await ensure(self.client, RESETS if kind == "GPUReset" else REBOOTS, {**obj, "spec": {**spec, **more}})


class Janitor(Controller):
    """Carries orders out. Subclasses say of what."""

    kind, resource = "", ""

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context)
        self.post = post
        self.orders = self.informers[self.resource]

    def listen(self) -> None:
        """Watch the orders."""
        self.watch_own(self.orders)

    async def sync(self, namespace: str, name: str) -> None:
        """Do what comes next for an order."""
        order = self.orders.get("", name)
        if order is None or _is_done(order):
            return
        status = dict(order.get("status") or {})
        if not status.get("startTime"):
            status["startTime"] = stamp(self.clock.now())
            await self._write(order, status, "SignalSent", "Succeeded", await self.carry_out(order))
            return
        if await self.is_over(order):
            status["completionTime"] = stamp(self.clock.now())
            await self._write(order, status, DONE[self.kind], "Succeeded", "")
            return
        self.queue.add_after(f"/{name}", REBOOTING_S)

    @abstractmethod
    async def carry_out(self, order: Obj) -> str:
        """Begin; returns what is said of it."""

    @abstractmethod
    async def is_over(self, order: Obj) -> bool:
        """Tell whether it is done."""

    async def _write(self, order: Obj, status: Obj, kind: str, reason: str, message: str) -> None:
        now = stamp(self.clock.now())
        condition = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        status = {**status, "conditions": [*(status.get("conditions") or ()), condition]}
        with tolerating(404):
            await self.orders.patch(order, {"status": status}, subresource="status")
            self.queue.add_after(f"/{order['metadata']['name']}", REBOOTING_S)


class Rebooter(Janitor):
    """Reboots nodes through their cloud."""

    source, kind, resource = "janitor", "RebootNode", REBOOTS

    async def carry_out(self, order: Obj) -> str:
        """Send the signal."""
        name = order["spec"]["nodeName"]
        try:
            self.post.machines.reboot(name)
        except (KeyError, ApiError):
            return f"node {name} not found"
        return f"reboot signal sent to {name}"

    async def is_over(self, order: Obj) -> bool:
        """Tell whether the node has booted and is ready."""
        try:
            node = await self._node(order["spec"]["nodeName"])
        except ApiError:
            return False
        ready = condition_of(node["status"], "Ready")  # which a machine that is off counts as for 40 s
        return ready.get("status") == "True" and ready["lastTransitionTime"] > order["status"]["startTime"]

    async def _node(self, name: str) -> Obj:
        return await self.client.get("nodes", name)


class Resetter(Janitor):
    """Resets GPUs: the services of the node that use them are stopped meanwhile, and look at them anew."""

    source, kind, resource = "janitor", "GPUReset", RESETS

    async def carry_out(self, order: Obj) -> str:
        """Do nothing yet: the job on the node takes its time."""
        return "reset job created"

    async def is_over(self, order: Obj) -> bool:
        """Reset the devices; True once all are well."""
        try:
            board = self.post.machines.gpus(order["spec"]["nodeName"]).board
        except KeyError:
            return False
        now, wanted = self.clock.now(), (order["spec"].get("selector") or {}).get("uuids") or ()
        done = True
        for device in board.devices:
            if device.uuid not in wanted:
                continue
            try:
                board.reset(device.index, now)
                line = f"nvsentinel-gpu-reset: GPU reset executed: {device.uuid}, success: true"
            except NoReset:
                line, done = f"nvsentinel-gpu-reset: GPU reset executed: {device.uuid}, success: false", False
            board.log.write(now, line, facility=USER)
        if done:
            board.look_again()
        return done


def remediation(post: Post) -> Operator:
    """Begin fault-remediation."""
    return Operator(post, Remediation)


def janitor(post: Post) -> Operator:
    """Begin janitor."""
    return Operator(post, Rebooter, Resetter)


def _is_done(order: Obj) -> bool:
    status = order.get("status") or {}
    return any(condition_of(status, kind) for kind in DONE.values())


def _name(node: Obj, message: str) -> str:
    name = node["metadata"]["name"]
    since = condition_of(node["status"], "SysLogsXIDError")
    seed = f"{name}{message}{since.get('lastTransitionTime', '')}"
    return f"maintenance-{name}-{hashlib.sha256(seed.encode()).hexdigest()[:24]}"
