"""NVSentinel's fault-remediation and janitor: an emptied node is rebooted, or its GPU reset, as its error asks."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod

from kubesim.addons.operator import Operator, ensure
from kubesim.addons.sentinel import STATE, Module, fatal
from kubesim.addons.sentinel_monitor import UUID
from kubesim.conditions import condition_of
from kubesim.controllers.base import Context, Controller
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.gpu.kernel_log import USER
from kubesim.gpu.mig import MigError
from kubesim.kubelet.duties import Post
from kubesim.times import stamp

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
        """Whether it is done."""

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

    def __init__(self, context: Context, post: Post) -> None:
        super().__init__(context, post)
        self._boots: dict[str, str] = {}

    async def carry_out(self, order: Obj) -> str:
        """Send the signal."""
        name = order["spec"]["nodeName"]
        try:
            self._boots[order["metadata"]["name"]] = (await self._node(name))["status"]["nodeInfo"]["bootID"]
            self.post.machines.reboot(name)
        except (KeyError, ApiError):
            return f"node {name} not found"
        return f"reboot signal sent to {name}"

    async def is_over(self, order: Obj) -> bool:
        """Whether the node has booted and is ready."""
        try:
            node = await self._node(order["spec"]["nodeName"])
        except ApiError:
            return False
        ready = condition_of(node["status"], "Ready")
        before = self._boots.get(order["metadata"]["name"], "")
        return ready.get("status") == "True" and node["status"]["nodeInfo"]["bootID"] != before

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
            except MigError:
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
