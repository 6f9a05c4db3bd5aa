"""The agent of a GPU fault injector (``gpu-fault-injector``, port 8083): lets hardware faults happen on its node.

The routes are those of Dynamo's fault injection service, and more: what recovers a device, a driver whose libraries
were updated without a reboot, a container toolkit that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from kubesim.api import quantity
from kubesim.clock import Timer
from kubesim.errors import Obj
from kubesim.gpu.board import NoReset
from kubesim.gpu.xids import xids
from kubesim.kubelet.duties import Post
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.times import stamp

PORT = 8083
LEAST_XID, MOST_XID = 1, 1000
MOST_SECONDS = 8 * 3600
MOST_USED = 1 << 50
ACTIONS = ("start", "stop", "restart", "kill")
RESOURCES = {"memory": "memory", "disk": "ephemeral-storage", "inodes": "inodes", "pids": "pids"}
"""What of a node may be used, and how kubelets name it."""


class Refusal(Exception):
    """A request that cannot be done: HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Injector(HttpServer):
    """One node's agent. What it has let happen and what is not over yet is in ``faults``."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._board = post.machines.gpus(post.node).board
        self.faults: dict[str, Obj] = {}
        self._timers: dict[str, Timer] = {}
        self._count = 0

    def stop(self) -> None:
        """Leave everything as it is: faults outlive the agent, as hardware's do."""
        for timer in self._timers.values():
            timer.cancel()

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return _json(200, self._route(request.method, request.path)(_body(request)))
        except Refusal as error:
            return _json(error.status, {"detail": str(error)})

    def _route(self, method: str, path: str) -> Callable[[Obj], Obj]:
        routes: dict[tuple[str, str], Callable[[Obj], Obj]] = {
            ("GET", "/health"): self._health,
            ("GET", "/faults"): lambda body: {"faults": [*self.faults.values()], "count": len(self.faults)},
            ("POST", "/inject-xid"): self._inject,
            ("POST", "/recover"): self._recover,
            ("POST", "/reset"): self._reset,
            ("POST", "/reboot"): self._reboot,
            ("POST", "/driver"): self._driver,
            ("POST", "/toolkit"): self._toolkit,
            ("POST", "/use"): self._use,
            ("POST", "/service"): self._service,
        }
        if (method, path) in routes:
            return routes[method, path]
        if any(known == path for _, known in routes):
            raise Refusal(405, "Method Not Allowed")
        raise Refusal(404, "Not Found")

    def _health(self, body: Obj) -> Obj:
        found = {"status": "healthy", "node": self._post.node, "gpu_count": len(self._board.devices)}
        return found | {"dcgm_available": True, "active_faults": len(self.faults)}

    def _inject(self, body: Obj) -> Obj:
        """Let an Xid happen: one that the driver knows with all that follows, any other as its line alone."""
        code, gpu = _number(body, "xid_type", LEAST_XID, MOST_XID), self._device(body)
        seconds = _number(body, "duration", 1, MOST_SECONDS) if body.get("duration") is not None else 0
        now = self._post.clock.now()
        if code in xids():
            self._board.xid(gpu, code, now)
        else:
            self._board.log.write(now, f"NVRM: Xid (PCI:{self._board.devices[gpu].bus}): {code}", 3)
        self._count += 1
        name = str(body.get("fault_id") or f"xid-{code}-{self._count}")
        self.faults[name] = {"fault_id": name, "xid_type": code, "gpu_id": gpu, "injected_at": stamp(now)}
        if seconds:
            self._timers[name] = self._post.clock.call_later(seconds, lambda: self._end(name))
        return {"status": "injected", **self.faults[name], "message": f"XID {code} injected on GPU {gpu}"}

    def _recover(self, body: Obj) -> Obj:
        name = str(body.get("fault_id") or "")
        if name not in self.faults:
            raise Refusal(404, f"Fault {name} not found")
        self._end(name)
        return {"status": "recovered", "fault_id": name}

    def _end(self, name: str) -> None:
        """Repair the device that a fault has hit."""
        fault = self.faults.pop(name)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        self._board.repair(fault["gpu_id"], self._post.clock.now())

    def _reset(self, body: Obj) -> Obj:
        if "gpu_id" not in body:
            raise Refusal(400, f"gpu_id: missing; it names the GPU to reset, 0 to {len(self._board.devices) - 1}")
        gpu = self._device(body)
        try:
            self._board.reset(gpu, self._post.clock.now())
        except NoReset as error:
            raise Refusal(409, f"GPU {gpu}: {error}") from error
        return {"status": "reset", "gpu_id": gpu}

    def _reboot(self, body: Obj) -> Obj:
        self._post.machines.reboot(self._post.node)
        return {"status": "rebooting", "node": self._post.node}

    def _driver(self, body: Obj) -> Obj:
        """Update the driver's libraries without loading its module anew; or leave that out of the next boot."""
        if isinstance(body.get("module"), bool):
            self._board.built = body["module"]
            self._board.noted()
            return {"status": "updated", "module": self._board.built}
        version = str(body.get("version") or "")
        if not re.fullmatch(r"\d{3}\.\d{1,3}(\.\d{1,3})?", version):
            raise Refusal(400, "version: one such as 580.105.08 is expected; or module: true or false")
        self._board.update_driver(version, self._post.clock.now())
        self._board.changed()
        return {"status": "updated", "version": version}

    def _service(self, body: Obj) -> Obj:
        """Start, stop, restart or kill one of the node's services."""
        name, verb = str(body.get("name") or ""), str(body.get("action") or "")
        if verb not in ACTIONS:
            raise Refusal(400, f"action: one of {', '.join(ACTIONS)} is expected")
        try:
            self._post.machines.serve(self._post.node, name, verb)
        except KeyError as error:
            raise Refusal(404, f"Unit {name}.service not found.") from error
        return {"status": "done", "name": name, "action": verb}

    def _toolkit(self, body: Obj) -> Obj:
        """Install or remove the container toolkit."""
        if not isinstance(body.get("installed"), bool):
            raise Refusal(400, "installed: true or false is expected")
        self._board.toolkit = body["installed"]
        self._board.changed()
        return {"status": "changed", "installed": self._board.toolkit}

    def _use(self, body: Obj) -> Obj:
        """Let something that is no pod use the node's memory, disk, inodes or process numbers."""
        found: dict[str, int] = {}
        for name, resource in RESOURCES.items():
            try:
                amount = quantity.parse(str(body[name])) if name in body else None
            except quantity.QuantityError as error:
                raise Refusal(400, f"{name}: {error}") from error
            if amount is not None and not 0 <= amount <= MOST_USED:
                raise Refusal(400, f"{name}: a quantity from 0 to 1Pi is expected")
            if amount is not None:
                found[resource] = int(amount)
        if not found:
            raise Refusal(400, f"one of {', '.join(RESOURCES)} is expected, as quantities")
        for resource, used in found.items():
            self._post.machines.use(self._post.node, resource, used)
        return {"status": "used", **{name: str(body[name]) for name in RESOURCES if name in body}}

    def _device(self, body: Obj) -> int:
        return _number({"gpu_id": 0} | body, "gpu_id", 0, len(self._board.devices) - 1)


def begin(post: Post) -> Injector:
    """Listen."""
    made = Injector(post)
    post.listen(PORT, made)
    return made


def _body(request: Request) -> Obj:
    try:
        found = orjson.loads(request.body) if request.body else {}
    except orjson.JSONDecodeError as error:
        raise Refusal(422, "the body is no JSON") from error
    if not isinstance(found, dict):
        raise Refusal(422, "the body is no JSON object")
    return found


def _number(body: Obj, name: str, least: int, most: int) -> int:
    value = body.get(name)
    if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refusal(400, f"{name}: a number from {least} to {most} is expected")
    return value


def _json(status: int, document: Any) -> Response:
    return Response(status, orjson.dumps(document), {"Content-Type": "application/json"})
