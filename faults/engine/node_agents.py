"""The agents of nodes, which let hardware faults happen: where they run, and how they are asked.

An agent is a pod on the node, reached through the API server like any program in the cluster. It does nothing without
a lease, and ends what it has begun when the lease runs out: nobody of ours has to be alive for that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from faults import clock
from faults.engine.model import Request
from faults.engine.ports import ClusterPort, Obj
from faults.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotOnRealNodes,
    Unanswered,
    Unreachable,
)

MAX_LEASE_S = 8 * 3600
UNSUPPORTED = "unsupported_on_real_nodes"
"""The code by which agents of real nodes refuse what only simulated ones can do."""
BASE_PATH = "--base-path="
"""The argument of an agent that answers below a path alone."""


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """The namespace, labels and port of the agents of one kind."""

    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    port: int = 8083


SESSION = AgentPlace("node-agents", {"app": "node-agent"})
"""The agents of a session; nothing about them says what they are for."""
GUIDE = AgentPlace("fault-injection-system", {"app": "gpu-fault-injector"})
"""Those of the user guide of GPU fault injection."""
PLACES = (SESSION, GUIDE)


@dataclass(frozen=True, slots=True)
class AgentLease:
    """A holder's claim on agents. ``until``: the end of the claim, and of every fault under it; None: the longest."""

    holder: str
    until: datetime | None = None

    @property
    def seconds(self) -> int:
        """The seconds that are left of it, as agents take them. 0 where it has run out."""
        if self.until is None:
            return MAX_LEASE_S
        return max(0, min(round((self.until - clock.now()).total_seconds()), MAX_LEASE_S))

    def of(self, fault_id: str) -> AgentLease:
        """Return the lease of one fault of the holder's, which ends with it."""
        return replace(self, holder=fault_id)


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of one node."""

    node: str
    namespace: str
    pod: str
    port: int
    base: str = ""

    @property
    def server(self) -> str:
        """The agent as the API server's proxy takes it."""
        return f"pods/{self.pod}:{self.port}"

    def take_lease(self, cluster: ClusterPort, lease: AgentLease) -> None:
        """Take a lease, or prolong it. Raises ClusterError."""
        self.post(cluster, "/lease", {"holder": lease.holder, "seconds": lease.seconds})

    def give_back_lease(self, cluster: ClusterPort, holder: str) -> None:
        """End a lease, and what there is under it; nothing begins under it from then on. Raises ClusterError."""
        self.post(cluster, "/lease", {"holder": holder, "seconds": 0})

    def inject(self, cluster: ClusterPort, body: Obj) -> Obj:
        """Let a fault happen; the same one again has no effect. Raises ClusterError."""
        return self.post(cluster, "/inject", body)

    def recover(self, cluster: ClusterPort, fault_id: str) -> None:
        """Take a fault back; nothing where there is none of that name. Raises ClusterError."""
        try:
            self.post(cluster, "/recover", {"fault_id": fault_id})
        except NotFound:
            return

    def fault(self, cluster: ClusterPort, fault_id: str) -> Obj | None:
        """Return a fault that is there. Raises ClusterError."""
        try:
            return self._ask(cluster, Request("GET", f"{self.base}/faults/{fault_id}"))
        except NotFound:
            return None

    def faults(self, cluster: ClusterPort) -> list[Obj]:
        """Return all faults of the node. Raises ClusterError."""
        return list(self._ask(cluster, Request("GET", f"{self.base}/faults"))["faults"])

    def gpu_count(self, cluster: ClusterPort) -> int:
        """Return the number of GPUs that the node has. Raises ClusterError."""
        return int(self._ask(cluster, Request("GET", f"{self.base}/health")).get("gpu_count", 0))

    def post(self, cluster: ClusterPort, path: str, body: Obj) -> Obj:
        """Send a request that changes something. Raises ClusterError."""
        return self._ask(cluster, Request("POST", f"{self.base}{path}", body))

    def _ask(self, cluster: ClusterPort, request: Request) -> Obj:
        reply = cluster.call(self.namespace, self.server, request)
        answer = _parsed(reply.body)
        if 200 <= reply.status < 300 and answer is not None:
            return answer
        raise self._error(reply.status, answer or {})

    def _error(self, status: int, said: Obj) -> ClusterError:
        text = f"The agent of node {self.node} says: {said.get('detail') or f'HTTP {status}'}."
        if said.get("code") == UNSUPPORTED:
            return NotOnRealNodes(text)
        if status == 429:
            return Unreachable(text, retry_after=1.0)
        if status == 503:  # an agent without the permission to write, in its own words
            return Unanswered(text)
        if status >= 500 or 200 <= status < 300:
            return Unreachable(text)
        return {403: Forbidden, 404: NotFound, 409: Conflict}.get(status, Invalid)(text)


def agents(cluster: ClusterPort, namespaces: Collection[str] | None = None) -> Iterator[Agent]:
    """Yield the agents that run, of all places or of those in these namespaces. Raises ClusterError."""
    for place in PLACES:
        if namespaces is None or place.namespace in namespaces:
            pods = cluster.list("v1", "Pod", place.namespace)
            yield from (_agent(place, pod) for pod in pods if _runs(place, pod))


def find_agent(cluster: ClusterPort, node: str) -> Agent | None:
    """Return the agent that runs on a node. Raises ClusterError."""
    return next((agent for agent in agents(cluster) if agent.node == node), None)


def _agent(place: AgentPlace, pod: Obj) -> Agent:
    words = [word for one in pod["spec"]["containers"] for word in (*one.get("command", ()), *one.get("args", ()))]
    base = next((word.removeprefix(BASE_PATH) for word in words if word.startswith(BASE_PATH)), "")
    return Agent(pod["spec"]["nodeName"], place.namespace, pod["metadata"]["name"], place.port, base)


def _runs(place: AgentPlace, pod: Obj) -> bool:
    meta, status = pod["metadata"], pod.get("status") or {}
    is_one = place.labels.items() <= (meta.get("labels") or {}).items()
    is_up = status.get("phase") == "Running" and not meta.get("deletionTimestamp")
    return is_one and is_up and bool(pod["spec"].get("nodeName"))


def _parsed(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
