"""An independent picture of a cluster's nodes: what kubectl tells of them, and what an agent of our own knows.

That agent is another one than the session's, and stays when those have gone; faults belong to the node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.engine.node_agents import Agent
from faults.errors import ClusterError
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.session_agents import PRACTICE_IMAGE
from torture.places import Place, kubectl, until

Obj = dict[str, Any]
NAMESPACE, NAME, BASE, PORT = "torture-probe", "probe", "/probe", 8083
LABELS = {"app": NAME}


def node_picture(kubeconfig: Path) -> dict[str, str]:
    """Return what every node has to give, its conditions, labels and taints."""
    found: dict[str, str] = {}
    for node in json.loads(kubectl(kubeconfig, "get", "nodes", "-o", "json"))["items"]:
        name, status, spec = node["metadata"]["name"], node["status"], node["spec"]
        found |= {f"{name} allocatable {key}": value for key, value in status.get("allocatable", {}).items()}
        found |= {f"{name} condition {row['type']}": row["status"] for row in status.get("conditions", ())}
        found |= {f"{name} label {key}": value for key, value in node["metadata"].get("labels", {}).items()}
        found |= {
            f"{name} taint {row['key']}:{row['effect']}": row.get("value", "") for row in spec.get("taints", ())
        }
        found[f"{name} unschedulable"] = str(spec.get("unschedulable", False))
    return found


class Probe:
    """Agents that only tell which faults there are, and boot nodes."""

    def __init__(self, place: Place) -> None:
        assert place.kubeconfig is not None
        flat = kubectl(place.kubeconfig, "config", "view", "--flatten", "--minify", "-o", "yaml")
        self.kube = Kube(parse(flat), reaches_pods=place.name != "real")

    def agents(self) -> list[Agent]:
        """Return those that run. Raises ClusterError."""
        pods = self.kube.list("v1", "Pod", NAMESPACE)
        running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return [Agent(pod["spec"]["nodeName"], NAMESPACE, pod["metadata"]["name"], PORT, BASE) for pod in running]

    def agent(self, node: str) -> Agent | None:
        """Return that of a node."""
        return next((agent for agent in self.agents() if agent.node == node), None)

    def faults(self) -> list[str]:
        """Return the faults of all nodes; or what is in the way of knowing them."""
        try:
            agents = self.agents()
            found = [f"{agent.node}: {fault['fault_id']}" for agent in agents for fault in agent.faults(self.kube)]
            nodes = len(self.kube.list("v1", "Node"))
        except ClusterError as error:
            return [f"not known: {error}"]
        return found if len(agents) == nodes else [f"not known: {len(agents)} of {nodes} nodes tell"]

    def expires_at(self, node: str) -> list[str]:
        """Return the moments at which a node's faults end by themselves. Raises ClusterError."""
        agent = self.agent(node)
        return [fault["expires_at"] for fault in agent.faults(self.kube)] if agent else []


@contextmanager
def probe(place: Place) -> Iterator[Probe]:
    """Let agents of our own run on all nodes."""
    assert place.kubeconfig is not None
    container = {"name": NAME, "image": PRACTICE_IMAGE, "args": [f"--base-path={BASE}"]}
    template = {
        "metadata": {"labels": LABELS},
        "spec": {
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
        },
    }
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": [space, daemon_set]})
    kubectl(place.kubeconfig, "apply", "-f", "-", given=document)
    made = Probe(place)
    try:
        assert until(lambda: made.faults() == [], 60), f"the probes do not answer: {made.faults()}"
        yield made
    finally:
        made.kube.close()
