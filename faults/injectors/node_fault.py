"""Hardware and node faults, let happen by the node's agent: Xids, services, the driver, shortage.

The undo is the fault's name, which is committed before the agent is asked. Whether it is there is always read: an
agent may have started anew, and a candidate may have repaired the node, which wins.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar

from faults import clock
from faults.engine.model import Record, State, Target
from faults.engine.node_agents import MAX_LEASE_S, SESSION, Agent, AgentLease, find_agent
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.errors import Conflict, Invalid, Unanswered, Unreachable
from faults.injectors.kinds import Kind, Schema, StepError, find, get, waiting
from faults.xids import xids

SERVICES = ("kubelet", "containerd", "nvidia-fabricmanager")
PARTS = ("library", "module", "toolkit")
RESOURCES = ("memory", "disk", "inodes", "pids")
TROUBLES = ("throttle", "overheat", "memory_pressure", "compute_overload")
LAYERS = ("combined", "log", "cuda", "hang")
WRITERS = ("driver", "doubled", "kernel", "module")
"""Forms of the lines on real nodes, for readers of dmesg and of journald (faults/agent/kernel_log.py)."""
MAX_GPUS = 16
LOCAL_PORT = 18083
"""Of the machine of whoever takes a fault back by hand."""
NO_LEASE = AgentLease("nobody")
_NODE: Schema = {"type": "string", "minLength": 1, "maxLength": 253}
_LATE = timedelta(seconds=MAX_LEASE_S + 60)
"""After so long no fault is left, whatever has become of its agent."""


@dataclass(frozen=True, slots=True)
class AwaitedPods:
    """Pods that have to be ready before a fault happens: it is to end a program, which has to run for that."""

    namespace: str
    app: str

    def check(self, cluster: ClusterPort) -> None:
        """Raise Unreachable until there are pods with this label, and all of them are ready."""
        pods = [pod for pod in cluster.list("v1", "Pod", self.namespace) if self._is_one(pod)]
        if not pods or not all(map(_is_ready, pods)):
            raise Unreachable(f"Waiting for the pods with app={self.app} to be ready.", retry_after=1.0)

    def _is_one(self, pod: Obj) -> bool:
        return (pod["metadata"].get("labels") or {}).get("app") == self.app


@dataclass(frozen=True, slots=True)
class NodeFault:
    """Let a fault happen on a node; ``fault`` is its kind and parameters as the agent takes them."""

    node: str
    fault: Obj = field(hash=False)
    injector: str = "xid"
    lease: AgentLease = NO_LEASE
    awaited: AwaitedPods | None = None
    action: ClassVar[str] = "node-fault"

    @property
    def target(self) -> Target:
        """The node."""
        return Target("v1", "Node", "", self.node)

    @property
    def part(self) -> tuple[str, ...]:
        """The part of the node that it breaks, by which two faults of one node are told apart."""
        named = {"service": "service", "driver": "part", "pressure": "resource"}
        about = named.get(self.injector, "gpu_id")
        return self.injector if self.injector != "xid" else "gpu", str(self.fault[about])


class NodeFaultKind(Kind[NodeFault]):
    """The base of the kinds whose faults the node's agent lets happen."""

    undo = NodeFault.action
    verb = "Breaking"
    needs_agent = True

    def plan(self, cluster: ClusterPort, index: int, change: NodeFault, neighbours: Neighbours) -> Record:
        """Return the record with the fault's name. The agent has to run, and must not know the fault yet.

        Raises Unreachable while the fault has to wait for a program that it is to end.
        """
        live = get(cluster, change.target)
        if change.awaited:
            change.awaited.check(cluster)
        agent = _running_agent(cluster, change.node)
        name = f"{change.lease.holder}-{index}"
        with waiting(change.target):
            if agent.fault(cluster, name) is not None:
                raise Conflict(f"The agent of {change.target} knows the fault {name} before it was asked for.")
        undo = {"action": self.undo, "fault_id": name, "fault": change.fault, "planned": clock.now().isoformat()}
        return Record(index, change.injector, change.target, undo, uid=live["metadata"]["uid"])

    def apply(self, cluster: ClusterPort, change: NodeFault, record: Record) -> Record:
        """Take the lease, let the fault happen unless an earlier attempt has, and see it."""
        if not change.lease.seconds:
            raise Invalid(f"The lease for faults on {change.target} has run out: the run's deadline has passed.")
        agent, name = _running_agent(cluster, change.node), record.undo["fault_id"]
        with waiting(change.target):
            agent.take_lease(cluster, change.lease.of(name))
            agent.inject(cluster, {**change.fault, "fault_id": name, "lease": name})
            if agent.fault(cluster, name) is None:
                raise Unanswered(f"The agent of {change.target} took the fault but does not show it.")
        return record.applied(record.uid)

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Take the fault back while it is there, give its lease back, and see it gone.

        A request to begin it may still be under way, from a worker that was overtaken or through a slow network:
        without a lease it comes too late. Without an agent nobody can tell: it is waited for, until the fault must
        have ended by itself.
        """
        if _is_gone(cluster, record):
            return record.reverted("the node has gone")
        agent, name = find_agent(cluster, record.target.name), record.undo["fault_id"]
        if agent is None:
            if clock.now() - datetime.fromisoformat(record.undo["planned"]) > _LATE:
                return record.reverted("has ended by itself, with its lease")
            raise _no_agent(record.target)
        with waiting(record.target):
            was_there = agent.fault(cluster, name) is not None
            if was_there:
                agent.recover(cluster, name)
            agent.give_back_lease(cluster, name)
            if agent.fault(cluster, name) is not None:
                raise Unanswered(f"The agent of {record.target} still shows the fault that it has taken back.")
        return record.reverted("recovered" if was_there else "was not there, left alone")

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the node has the fault. Of one that was taken back no agent need be there to tell."""
        if _is_gone(cluster, record):
            return False
        agent = find_agent(cluster, record.target.name)
        if agent is None and record.state is State.REVERTED:
            return False
        if agent is None:
            raise _no_agent(record.target)
        with waiting(record.target):
            return agent.fault(cluster, record.undo["fault_id"]) is not None

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the command that sends the agent the name of the fault to take back.

        The port is forwarded by the node's kubelet: not every API server reaches pods by its proxy.
        """
        node = record.target.name
        agent = find_agent(cluster, node) or Agent(node, SESSION.namespace, f"POD-ON-{node}", SESSION.port)
        ports = f"{LOCAL_PORT}:{agent.port}"
        forward = f"kubectl port-forward -n {agent.namespace} pod/{agent.pod} {ports} >/dev/null"
        body = shlex.quote(json.dumps({"fault_id": record.undo["fault_id"]}))
        url = f"http://127.0.0.1:{LOCAL_PORT}{agent.base}/recover"
        return f"{forward} & curl -sS --retry 15 --retry-delay 1 --retry-connrefused -d {body} {url}; kill $!; wait"


class Xid(NodeFaultKind):
    """Lets an Xid happen on a GPU."""

    name = "xid"
    fields: ClassVar = {
        "node": _NODE,
        "xid": {"type": ["integer", "string"]},
        "gpu": {"type": ["integer", "string"]},
        "layers": {"type": "string"},
        "writer": {"type": "string"},
        "after": {
            "type": "object",
            "additionalProperties": False,
            "required": ["namespace", "app"],
            "properties": {name: {"type": "string", "minLength": 1} for name in ("namespace", "app")},
        },
    }
    required = ("node", "xid")

    def changes(self, spec: Obj) -> Sequence[NodeFault]:
        """Return the one fault."""
        about = {"xid_type": _number(spec["xid"]), "gpu_id": _number(spec.get("gpu", 0))}
        writer = {"writer": spec["writer"]} if "writer" in spec else {}
        fault = {"kind": "xid", **about, "layers": spec.get("layers", LAYERS[0]), **writer}
        awaited = AwaitedPods(**spec["after"]) if "after" in spec else None
        return [NodeFault(spec["node"], fault, awaited=awaited)]

    def read_namespaces(self, spec: Obj) -> Sequence[str]:
        """Return the namespace of the pods that the fault waits for."""
        return [change.awaited.namespace for change in self.changes(spec) if change.awaited]

    def check(self, spec: Obj) -> None:
        """Refuse Xids that the table does not have, GPUs that no node has, and unknown layers."""
        _check_number(spec, "xid", xids())
        _check_number(spec, "gpu", range(MAX_GPUS))
        _check_word(spec, "layers", LAYERS)
        _check_word(spec, "writer", WRITERS)
        known = xids().get(_number(spec["xid"]))
        if known is not None and (refusal := known.refusal(spec.get("layers", LAYERS[0]))):
            raise StepError("layers", refusal)


class GpuTrouble(NodeFaultKind):
    """Slows a GPU down, or takes its memory or its time from others, without an Xid."""

    name = "gpu"
    fields: ClassVar = {"node": _NODE, "effect": {"type": "string"}, "gpu": {"type": ["integer", "string"]}}
    required = ("node", "effect")

    def changes(self, spec: Obj) -> Sequence[NodeFault]:
        """Return the one fault."""
        about = {"effect": spec["effect"], "gpu_id": _number(spec.get("gpu", 0))}
        return [NodeFault(spec["node"], {"kind": "gpu", **about}, self.name)]

    def check(self, spec: Obj) -> None:
        """Refuse other effects, and GPUs that no node has."""
        _check_word(spec, "effect", TROUBLES)
        _check_number(spec, "gpu", range(MAX_GPUS))


class Service(NodeFaultKind):
    """Stops a service of a node."""

    name = "service"
    fields: ClassVar = {"node": _NODE, "service": {"type": "string"}}
    required = ("node", "service")

    def changes(self, spec: Obj) -> Sequence[NodeFault]:
        """Return the one fault."""
        return [NodeFault(spec["node"], {"kind": "service", "service": spec["service"]}, self.name)]

    def check(self, spec: Obj) -> None:
        """Refuse other services: nobody could take back what stops the node itself."""
        _check_word(spec, "service", SERVICES)


class Driver(NodeFaultKind):
    """Breaks a part of a node's GPU driver."""

    name = "driver"
    fields: ClassVar = {
        "node": _NODE,
        "part": {"type": "string"},
        "version": {"type": "string", "pattern": "^(\\d{3}\\.\\d{1,3}(\\.\\d{1,3})?|\\$\\{.*\\})$"},
    }
    required = ("node", "part")

    def changes(self, spec: Obj) -> Sequence[NodeFault]:
        """Return the one fault."""
        version = {"version": spec["version"]} if "version" in spec else {}
        return [NodeFault(spec["node"], {"kind": "driver", "part": spec["part"], **version}, self.name)]

    def check(self, spec: Obj) -> None:
        """Refuse unknown parts, and a version of what has none."""
        _check_word(spec, "part", PARTS)
        if (spec["part"] == "library") != ("version" in spec) and "${" not in spec["part"]:
            raise StepError("version", "is for part: library, which needs it, such as 580.105.08")


class Pressure(NodeFaultKind):
    """Uses up memory, disk, inodes or process numbers of a node."""

    name = "pressure"
    fields: ClassVar = {
        "node": _NODE,
        "resource": {"type": "string"},
        "amount": {"type": "string", "pattern": "^(\\d+(\\.\\d+)?([kMGTP]i?)?|\\$\\{.*\\})$"},
    }
    required = ("node", "resource", "amount")

    def changes(self, spec: Obj) -> Sequence[NodeFault]:
        """Return the one fault."""
        about = {"resource": spec["resource"], "amount": spec["amount"]}
        return [NodeFault(spec["node"], {"kind": "pressure", **about}, self.name)]

    def check(self, spec: Obj) -> None:
        """Refuse other resources."""
        _check_word(spec, "resource", RESOURCES)


def with_lease(change: Any, lease: AgentLease | None) -> Any:
    """Return a change with the lease of its run, if it is one that needs a lease."""
    return replace(change, lease=lease) if lease and isinstance(change, NodeFault) else change


def renew_lease(cluster: ClusterPort, records: Sequence[Record], lease: AgentLease) -> None:
    """Move the end of a run's faults. Raises ClusterError."""
    ours = [record for record in records if record.undo["action"] == NodeFault.action]
    for record in (record for record in ours if record.state is State.APPLIED):
        if find(cluster, record.target) is not None:
            _running_agent(cluster, record.target.name).take_lease(cluster, lease.of(record.undo["fault_id"]))


def _is_ready(pod: Obj) -> bool:
    found = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _running_agent(cluster: ClusterPort, node: str) -> Agent:
    agent = find_agent(cluster, node)
    if agent is None:
        raise _no_agent(Target("v1", "Node", "", node))
    return agent


def _no_agent(target: Target) -> Unreachable:
    return Unreachable(f"No agent runs on {target}: look at the pods of the namespace {SESSION.namespace}.")


def _is_gone(cluster: ClusterPort, record: Record) -> bool:
    live = find(cluster, record.target)
    return live is None or live["metadata"]["uid"] != record.uid


def _number(value: Any) -> Any:
    """Return a number that a placeholder may have made a text; the placeholder itself stays."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _check_number(spec: Obj, field_name: str, known: Collection[int]) -> None:
    value = _number(spec.get(field_name, min(known)))
    if value not in known and not _is_open(value):
        raise StepError(field_name, f"{value} is not known; valid are: {', '.join(map(str, sorted(known)))}")


def _check_word(spec: Obj, field_name: str, known: Sequence[str]) -> None:
    value = spec.get(field_name, known[0])
    if value not in known and not _is_open(value):
        raise StepError(field_name, f"{value} is not known; valid are: {', '.join(known)}")


def _is_open(value: Any) -> bool:
    """Return whether a value is a placeholder, which a variant or the cluster fills in."""
    return isinstance(value, str) and "${" in value
