"""Calls a program in the cluster; the undo is a request to the same program, and a third one tells its effect.

The request goes through the API server's proxy to a pod or service, so that nothing but access to the cluster is
needed. Programs forget by themselves (a pod starts anew), and a candidate may call them, too: the effect is always
read, never assumed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from faults.engine.model import Record, Reply, Request, Target
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.errors import Conflict, Invalid, Unanswered
from faults.injectors.kinds import Kind, Schema, StepError, find, get, waiting

MAX_BODY_BYTES = 16 * 1024
_COMMANDS = {"POST": "create", "PUT": "replace", "DELETE": "delete"}
"""The methods that change something, and the kubectl command that sends each: a person must be able to, too."""
_PATH: Schema = {"type": "string", "pattern": "^/[^\\s#\\\\]*$", "maxLength": 1000}
_BODY: Schema = {"type": ["object", "array", "string", "number", "boolean", "null"]}
_METHOD: Schema = {"enum": list(_COMMANDS)}


@dataclass(frozen=True, slots=True)
class CallProgram:
    """Send ``request`` to ``server``; ``undo_request`` takes back what ``read`` shows after it."""

    target: Target
    server: str
    request: Request
    undo_request: Request
    read: Request
    expect: Obj
    injector: str = "call"
    action: ClassVar[str] = "request"


class Call(Kind[CallProgram]):
    """Sends one request to a pod or service."""

    name = "call"
    undo = CallProgram.action
    fields: ClassVar = {
        "target": {
            "type": "object",
            "additionalProperties": False,
            "required": ["kind", "namespace", "name", "port"],
            "properties": {
                "kind": {"enum": ["Pod", "Service"]},
                "namespace": {"type": "string", "minLength": 1},
                "name": {"type": "string", "minLength": 1},
                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                "scheme": {"enum": ["http", "https"]},
            },
        },
        "method": _METHOD,
        "path": _PATH,
        "body": _BODY,
        "undo": {
            "type": "object",
            "additionalProperties": False,
            "required": ["method", "path"],
            "properties": {"method": _METHOD, "path": _PATH, "body": _BODY},
        },
        "read": {
            "type": "object",
            "additionalProperties": False,
            "required": ["path"],
            "properties": {
                "path": _PATH,
                "status": {"type": "integer", "minimum": 200, "maximum": 599},
                "json": True,
                "text": {"type": "string", "minLength": 1, "maxLength": 1000},
            },
        },
    }
    required = ("target", "method", "path", "undo", "read")
    verb = "Calling"

    def changes(self, spec: Obj) -> Sequence[CallProgram]:
        """Return the one change."""
        target, read = spec["target"], spec["read"]
        return [
            CallProgram(
                Target("v1", target["kind"], target["namespace"], target["name"]),
                server_of(target),
                Request.load(spec),
                Request.load(spec["undo"]),
                Request.load(read, "GET"),
                {key: read[key] for key in ("status", "json", "text") if key in read},
            )
        ]

    def check(self, spec: Obj) -> None:
        """Refuse paths that leave the program, bodies that are too large, and reads that expect nothing."""
        for where, request in (("", spec), ("undo.", spec["undo"]), ("read.", spec["read"])):
            path = request["path"].partition("?")[0]
            if any(part in (".", "..") for part in path.lower().replace("%2e", ".").replace("%2f", "/").split("/")):
                raise StepError(f"{where}path", "must not have . or .. as a part")
            if len(json.dumps(request.get("body"))) > MAX_BODY_BYTES:
                raise StepError(f"{where}body", f"is larger than {MAX_BODY_BYTES // 1024} KiB")
        if not {"status", "json", "text"} & spec["read"].keys():
            raise StepError("read", "must expect something: status, json or text")

    def plan(self, cluster: ClusterPort, index: int, change: CallProgram, neighbours: Neighbours) -> Record:
        """Return the record with the requests that take the effect back and read it. It must not be there yet."""
        live = get(cluster, change.target)
        undo = {
            "action": self.undo,
            "server": change.server,
            "request": change.undo_request.dump(),
            "read": change.read.dump(),
            "expect": change.expect,
        }
        record = Record(index, change.injector, change.target, undo, uid=live["metadata"]["uid"])
        with waiting(change.target):
            if _shows(cluster, record):
                raise Conflict(f"{change.target} shows the effect of the call before it was made.")
        return record

    def apply(self, cluster: ClusterPort, change: CallProgram, record: Record) -> Record:
        """Send the request, unless an earlier attempt has, and see its effect."""
        with waiting(change.target):
            if not _shows(cluster, record):
                _send(cluster, record, change.request)
                if not _shows(cluster, record):
                    raise Unanswered(f"{record.target} took the call but does not show its effect.")
        return record.applied(record.uid)

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Send the request that takes the effect back, while it is there, and see it gone."""
        if not _runs(cluster, record):
            return record.reverted("the program has gone")
        if not _shows(cluster, record):
            return record.reverted("shows no effect, left alone")
        _send(cluster, record, Request.load(record.undo["request"]))
        if _shows(cluster, record):
            raise Unanswered(f"{record.target} took the call but still shows the effect of the first one.")
        return record.reverted("called back")

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the program shows the effect; one that does not run, or not answer, shows none."""
        try:
            return _runs(cluster, record) and _shows(cluster, record)
        except Unanswered:
            return False

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command that sends the request which takes the effect back."""
        request = Request.load(record.undo["request"])
        raw = shlex.quote(f"/api/v1/namespaces/{record.target.namespace}/{record.undo['server']}/proxy{request.path}")
        command = f"kubectl {_COMMANDS[request.method]} --raw {raw}"
        if request.method == "DELETE" and request.body is None:
            return command
        return f"echo {shlex.quote(json.dumps(request.body))} | {command} -f -"


def server_of(target: Obj) -> str:
    """Return a pod or service with its port as the API server's proxy takes it."""
    scheme = "https:" if target.get("scheme") == "https" else ""
    return f"{target['kind'].lower()}s/{scheme}{target['name']}:{target['port']}"


def _runs(cluster: ClusterPort, record: Record) -> bool:
    """Return whether there is anything to call: a pod that has not ended, or one that the service selects."""
    live = find(cluster, record.target)
    if live is None or live["kind"] == "Pod":
        return live is not None and _is_active(live)
    selector = live["spec"].get("selector") or {}
    pods = cluster.list("v1", "Pod", record.target.namespace) if selector else []
    return not selector or any(_is_active(pod) and _has(_labels(pod), selector) for pod in pods)


def _is_active(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _labels(pod: Obj) -> Obj:
    return pod["metadata"].get("labels") or {}


def _send(cluster: ClusterPort, record: Record, request: Request) -> None:
    """Send a request once: a second one might do more. The next attempt reads the effect first."""
    status = _call(cluster, record, request).status
    if not 200 <= status < 300:
        error = Unanswered if status >= 500 else Invalid
        raise error(f"{record.target} refused {request.method} {request.path} with HTTP {status}.")


def _shows(cluster: ClusterPort, record: Record) -> bool:
    """Return whether the answer to the read has all that it is expected to have."""
    request, expect = Request.load(record.undo["read"]), record.undo["expect"]
    reply, wanted = _call(cluster, record, request), expect.get("status", 200)
    if reply.status >= 500 and reply.status != wanted:  # tells nothing about the effect
        raise Unanswered(f"{record.target} answered {request.method} {request.path} with HTTP {reply.status}.")
    text = reply.body.decode("utf-8", "replace")
    is_in = expect.get("text", "") in text and ("json" not in expect or _has(_parsed(text), expect["json"]))
    return bool(reply.status == wanted and is_in)


def _call(cluster: ClusterPort, record: Record, request: Request) -> Reply:
    return cluster.call(record.target.namespace, record.undo["server"], request)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _has(value: Any, part: Any) -> bool:
    """Return whether a JSON value has everything that another one says; lists and plain values must be equal."""
    if isinstance(value, dict) and isinstance(part, dict):
        return all(key in value and _has(value[key], part[key]) for key in part)
    return bool(value == part)
