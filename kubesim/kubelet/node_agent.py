"""The node agent (port 8083): lets hardware faults happen on its node, while somebody holds a lease for them.

``/health``, ``/inject-xid`` and ``/faults`` are those of Dynamo's fault injection service; the agent for real nodes
has the same routes. With ``--base-path`` it answers below that path alone: who does not know it finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.gpu.xids import COMBINED, LAYERS, xids
from kubesim.kubelet.duties import Post
from kubesim.kubelet.node_faults import LIBRARY, MAX_S, RESOURCES, SLOWED, SWITCHES, TAKEN
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.shell.hostside import units
from kubesim.times import micro

PORT = 8083
MAX_USED = 1 << 50
MIN_PAUSE_S = 1.0
"""Between two faults."""
LOOPBACK, BASE_PATH = "127.0.0.1", "--base-path="
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
VERSION = re.compile(r"\d{3}\.\d{1,3}(\.\d{1,3})?")


class Refusal(Exception):
    """A request that cannot be done: HTTP status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class NodeAgent(HttpServer):
    """One node's agent; what it has let happen outlives it."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._board = post.machines.gpus(post.node).board
        self._faults = post.machines.faults(post.node)
        self._base = next((word.removeprefix(BASE_PATH) for word in post.argv if word.startswith(BASE_PATH)), "")
        self._last: datetime | None = None

    def stop(self) -> None:
        """Leave everything as it is: faults outlive the agent, as hardware's do."""

    async def respond(self, request: Request) -> Response:
        """Answer a request of the API server, or of the kubelet that forwards a port; pods find nothing."""
        try:
            inside = request.source != LOOPBACK and self._post.fabric.attached(request.source)
            if inside or not request.path.startswith(f"{self._base}/"):
                raise Refusal(404, "Not Found")
            answer = _json(200, self._route(request.method, request.path.removeprefix(self._base))(_body(request)))
        except Refusal as error:
            answer = _json(error.status, {"detail": str(error)})
        if request.method == "POST" and not self._base:  # one that is hidden tells nobody
            self._post.say(f'INFO:     "POST {request.path}" {answer.status}: {answer.body.decode()[:500]}')
        return answer

    def _route(self, method: str, path: str) -> Callable[[Obj], Obj]:
        routes: dict[tuple[str, str], Callable[[Obj], Obj]] = {
            ("GET", "/health"): self._health,
            ("GET", "/faults"): lambda body: {"faults": (found := self._faults.active()), "count": len(found)},
            ("POST", "/lease"): self._lease,
            ("POST", "/inject-xid"): lambda body: self._inject({**body, "kind": "xid"}),
            ("POST", "/inject"): self._inject,
            ("POST", "/recover"): self._recover,
            ("POST", "/reboot"): self._reboot,
        }
        if (method, path) in routes:
            return routes[method, path]
        if method == "GET" and path.startswith("/faults/"):
            return lambda body: self._found(path.removeprefix("/faults/"))
        if any(known == path for _, known in routes):
            raise Refusal(405, "Method Not Allowed")
        raise Refusal(404, "Not Found")

    def _health(self, body: Obj) -> Obj:
        found = {"status": "healthy", "node": self._post.node, "gpu_count": len(self._board.devices)}
        return found | {"dcgm_available": True, "active_faults": len(self._faults.active())}

    def _found(self, name: str) -> Obj:
        if (fault := self._faults.find(name)) is None:
            raise Refusal(404, f"Fault {name} not found")
        return fault

    def _lease(self, body: Obj) -> Obj:
        holder, seconds = _name(body, "holder"), _number(body, "seconds", 0, MAX_S)
        return {"holder": holder, "expires_at": micro(self._faults.lease(holder, seconds))}

    def _inject(self, body: Obj) -> Obj:
        kinds = {
            "xid": self._xid,
            "driver": _driver,
            "service": self._service,
            "pressure": _pressure,
            "gpu": self._gpu,
        }
        kind, name = _choice(body, "kind", kinds), _name(body, "fault_id")
        parameters = kinds[kind](body)
        if (known := self._faults.find(name)) is not None:
            if known["kind"] != kind or known != known | parameters:
                raise Refusal(409, f"fault_id: {name} is another fault of this node")
            return {"status": "injected", **known}
        holder = _name(body, "lease")
        if not self._faults.is_leased(holder):
            raise Refusal(403, f'lease: {holder} has no live lease here; POST /lease {{"holder", "seconds"}} first')
        now = self._post.clock.now()
        if self._last is not None and (now - self._last).total_seconds() < MIN_PAUSE_S:
            raise Refusal(429, "one fault per second at most; try again")
        seconds = _number(
            {"duration": MAX_S} | {k: v for k, v in body.items() if v is not None}, "duration", 1, MAX_S
        )
        self._last = now
        self._faults.begin(name, holder, kind, parameters, seconds)
        return {"status": "injected", **(self._faults.find(name) or {})}

    def _recover(self, body: Obj) -> Obj:
        name = _name(body, "fault_id")
        self._found(name)
        self._faults.end(name)
        return {"status": "recovered", "fault_id": name}

    def _reboot(self, body: Obj) -> Obj:
        self._post.machines.reboot(self._post.node)
        return {"status": "rebooting", "node": self._post.node}

    def _xid(self, body: Obj) -> Obj:
        code = _number(body, "xid_type", 1, 1000)
        if code not in xids():
            raise Refusal(400, f"xid_type: one of {', '.join(map(str, xids()))} is expected")
        layers = _choice({"layers": COMBINED} | body, "layers", LAYERS)
        return {"xid_type": code, "gpu_id": self._device(body), "layers": layers}

    def _gpu(self, body: Obj) -> Obj:
        return {"effect": _choice(body, "effect", [*SLOWED, *TAKEN]), "gpu_id": self._device(body)}

    def _service(self, body: Obj) -> Obj:
        return {"service": _choice(body, "service", units(self._board))}

    def _device(self, body: Obj) -> int:
        return _number({"gpu_id": 0} | body, "gpu_id", 0, len(self._board.devices) - 1)


def begin(post: Post) -> NodeAgent:
    """Listen."""
    made = NodeAgent(post)
    post.listen(PORT, made)
    return made


def _driver(body: Obj) -> Obj:
    part = _choice(body, "part", [LIBRARY, *SWITCHES])
    if part != LIBRARY:
        return {"part": part}
    if not VERSION.fullmatch(version := str(body.get("version") or "")):
        raise Refusal(400, "version: one such as 580.105.08 is expected")
    return {"part": part, "version": version}


def _pressure(body: Obj) -> Obj:
    resource = _choice(body, "resource", RESOURCES)
    try:
        amount = quantity.parse(str(body.get("amount") or ""))
    except quantity.QuantityError as error:
        raise Refusal(400, f"amount: {error}") from error
    if not 0 < amount <= MAX_USED:
        raise Refusal(400, "amount: a quantity up to 1Pi is expected")
    return {"resource": resource, "amount": str(body["amount"])}


PLAIN = {"driver": _driver, "pressure": _pressure}


def _body(request: Request) -> Obj:
    try:
        found = orjson.loads(request.body) if request.body else {}
    except orjson.JSONDecodeError as error:
        raise Refusal(422, "the body is no JSON") from error
    if not isinstance(found, dict):
        raise Refusal(422, "the body is no JSON object")
    return found


def _name(body: Obj, field: str) -> str:
    if not isinstance(value := body.get(field), str) or not NAME.fullmatch(value):
        raise Refusal(400, f"{field}: a name of letters, digits, ., _ and - is expected")
    return value


def _choice(body: Obj, field: str, known: Any) -> str:
    if not isinstance(value := body.get(field), str) or value not in known:
        raise Refusal(400, f"{field}: one of {', '.join(known)} is expected")
    return value


def _number(body: Obj, name: str, least: int, most: int) -> int:
    value = body.get(name)
    if isinstance(value, str) and re.fullmatch(r"\d{1,6}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refusal(400, f"{name}: a number from {least} to {most} is expected")
    return value


def _json(status: int, document: Any) -> Response:
    return Response(status, orjson.dumps(document), {"Content-Type": "application/json"})
