"""The requests that the agent answers: those of kubesim's agent, as far as a real node can do what they ask for."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from faults.agent.clocks import NodeClock
from faults.agent.driver_lines import known_xids
from faults.agent.kernel_log import WRITERS
from faults.agent.node_faults import COMBINED, CUDA, LOG, MAX_S, NodeFaults
from faults.agent.refusals import Refusal, invalid, not_permitted, unsupported
from faults.agent.state import Fault

Obj = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NUMBER = re.compile(r"[0-9]{1,6}")
MAX_XID = 1000
WITHOUT_CUDA = "programs fail by the CUDA fault library (native/), which is not set up on this node: {refusal}"
"""Why a node has only the kernel log. Metrics and allocatable follow the GPU itself, which nobody may break."""
KINDS = {
    "service": "to stop and start services takes root's rights on the whole node, which the agent has given up; and "
    "nobody could ask it, nor start it again, on a node without kubelet or containerd",
    "driver": "the driver's libraries and modules are the node's own: a broken one cannot be put back for sure, and "
    "programs of others may use it",
    "gpu": "a GPU's clocks and sensors are the hardware's own, and a process that takes its memory or its time from "
    "other pods' work cannot give them back what they have lost",
    "pressure": "what uses up a real node ends other pods, whose work does not come back with the lease",
}
"""Faults that simulated nodes have besides Xids, likewise."""
REBOOT = "a real node is rebooted by its provider or an administrator"
LOOPBACK = "127.0.0.1"


class AgentApi:
    """The routes. Without a base path they are for callers on loopback alone: a forwarded port."""

    def __init__(self, node: str, base: str, clock: NodeClock, faults: NodeFaults) -> None:
        self._node, self._base, self._clock, self._faults = node, base, clock, faults

    def respond(self, method: str, path: str, body: bytes, source: str) -> tuple[int, Obj]:
        """Answer a request with a status and a document. Raises Refusal."""
        route = self._route(method, self._below_base(path, source))
        return 200, route(_parse(body))

    def _below_base(self, path: str, source: str) -> str:
        """Return the path below the base path, which neither answers nor their time give away to a guesser."""
        head, rest = path[: len(self._base)], path[len(self._base) :]
        knows = hmac.compare_digest(head.encode(), self._base.encode()) and rest.startswith("/")
        if not knows or not (self._base or source == LOOPBACK):
            raise Refusal(404, "not_found", "Not Found")
        return rest

    def _route(self, method: str, path: str) -> Callable[[Obj], Obj]:
        routes: dict[tuple[str, str], Callable[[Obj], Obj]] = {
            ("GET", "/health"): self._health,
            ("GET", "/faults"): self._list,
            ("POST", "/lease"): self._lease,
            ("POST", "/inject-xid"): lambda body: self._inject({**body, "kind": "xid"}),
            ("POST", "/inject"): self._inject,
            ("POST", "/recover"): self._recover,
            ("POST", "/reboot"): self._reboot,
        }
        if (method, path) in routes:
            return routes[method, path]
        if method == "GET" and path.startswith("/faults/"):
            return lambda body: self._shown(self._found(path.removeprefix("/faults/")))
        if any(known == path for _, known in routes):
            raise Refusal(405, "method_not_allowed", "Method Not Allowed")
        raise Refusal(404, "not_found", "Not Found")

    def _health(self, body: Obj) -> Obj:
        refusal = self._faults.refusal
        found: Obj = {"status": "degraded" if refusal else "healthy", "node": self._node, "dcgm_available": False}
        found |= {"gpu_count": len(self._faults.gpus()), "active_faults": len(self._faults.active())}
        return found | {"confirms_lines": self._faults.is_confirmed} | ({"detail": refusal} if refusal else {})

    def _list(self, body: Obj) -> Obj:
        found = [self._shown(fault) for fault in self._faults.active()]
        return {"faults": found, "count": len(found)}

    def _found(self, name: str) -> Fault:
        if (fault := self._faults.find(name)) is None:
            raise Refusal(404, "not_found", f"Fault {name} not found")
        return fault

    def _lease(self, body: Obj) -> Obj:
        holder, seconds = _name(body, "holder"), _number(body, "seconds", 0, MAX_S)
        return {"holder": holder, "expires_at": self._clock.time_of_day(self._faults.lease(holder, seconds))}

    def _inject(self, body: Obj) -> Obj:
        wanted = self._wanted(body)
        known = self._faults.find(wanted.fault_id)
        if known is None:
            known = self._begin(wanted)
        elif _asked(known) != _asked(wanted):
            raise Refusal(409, "conflict", f"fault_id: {wanted.fault_id} is another fault of this node")
        return {"status": "injected", **self._shown(known)}

    def _begin(self, wanted: Fault) -> Fault:
        if not NAME.fullmatch(wanted.lease):
            raise invalid("lease: a name of letters, digits, ., _ and - is expected")
        if not self._faults.is_leased(wanted.lease):
            text = f'lease: {wanted.lease} has no live lease here; POST /lease {{"holder", "seconds"}} first'
            raise Refusal(403, "no_lease", text)
        return self._faults.begin(wanted)

    def _wanted(self, body: Obj) -> Fault:
        """Return the fault that a request describes. Raises Refusal where this node cannot have it."""
        kind, name = _choice(body, "kind", ["xid", *KINDS]), _name(body, "fault_id")
        if kind in KINDS:
            raise unsupported(f"kind: {kind} is for simulated nodes: {KINDS[kind]}")
        code = _number(body, "xid_type", 1, MAX_XID)
        if code not in known_xids():
            raise invalid(f"xid_type: one of {', '.join(map(str, known_xids()))} is expected")
        layers = _choice({"layers": LOG} | body, "layers", [LOG, CUDA, COMBINED])
        if layers != LOG and (missing := self._faults.cuda_refusal):
            raise unsupported(
                f"layers: {layers}: {WITHOUT_CUDA.format(refusal=missing)}; layers: log writes the kernel log"
            )
        if layers != CUDA and (refusal := self._faults.refusal):
            raise not_permitted(refusal)
        gpu = self._faults.gpu(_number({"gpu_id": 0} | body, "gpu_id", 0, 999))
        writer = _choice({"writer": "driver"} | body, "writer", WRITERS)
        duration = body.get("duration")
        seconds = MAX_S if duration is None else _number(body, "duration", 1, MAX_S)
        now, lease = self._clock.seconds(), body.get("lease")
        holder = lease if isinstance(lease, str) else ""
        return Fault(name, holder, code, gpu.index, layers, writer, now, now + seconds)

    def _recover(self, body: Obj) -> Obj:
        name = _name(body, "fault_id")
        self._found(name)
        self._faults.end(name)
        return {"status": "recovered", "fault_id": name}

    def _reboot(self, body: Obj) -> Obj:
        raise unsupported(f"reboot is for simulated nodes: {REBOOT}")

    def _shown(self, fault: Fault) -> Obj:
        moments = {"injected_at": fault.injected_at, "until": fault.until, "expires_at": self._faults.end_of(fault)}
        about = {"fault_id": fault.fault_id, **_asked(fault), "lease": fault.lease}
        return about | {name: self._clock.time_of_day(at) for name, at in moments.items()}


def _asked(fault: Fault) -> Obj:
    """Return what was asked for, by which two requests of one name are compared."""
    asked = {"kind": "xid", "xid_type": fault.xid_type, "gpu_id": fault.gpu_id, "layers": fault.layers}
    return asked | {"writer": fault.writer}


def _parse(body: bytes) -> Obj:
    try:
        found = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise Refusal(422, "no_json", "the body is no JSON") from error
    if not isinstance(found, dict):
        raise Refusal(422, "no_json", "the body is no JSON object")
    return found


def _name(body: Obj, field: str) -> str:
    if not isinstance(value := body.get(field), str) or not NAME.fullmatch(value):
        raise invalid(f"{field}: a name of letters, digits, ., _ and - is expected")
    return value


def _choice(body: Obj, field: str, known: Collection[str]) -> str:
    if not isinstance(value := body.get(field), str) or value not in known:
        raise invalid(f"{field}: one of {', '.join(known)} is expected")
    return value


def _number(body: Obj, field: str, least: int, most: int) -> int:
    """Return an integer; proxies and forms may have made it a text."""
    value = body.get(field)
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise invalid(f"{field}: a number from {least} to {most} is expected")
    return value
