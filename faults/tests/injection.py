"""A practice cluster with GPU nodes and the node agents, and callers of the fault injection API."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from django.test import Client

from faults import crypto, practice, services
from faults.engine.model import Request
from faults.models import Cluster

AGENT_IMAGE = "ghcr.io/ai-dynamo/gpu-fault-injector:latest"
NODES = [{"count": 2, "gpus": 2, "profile": "plain", "name": "worker-node"}]
NODE = "worker-node-1"
XID79 = "/api/v1/faults/gpu/inject/xid-79"
NETWORK = "/api/v1/faults/network/inject"
AGENTS = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fault-injection-system"}},
    {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "gpu-fault-injector", "namespace": "fault-injection-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "gpu-fault-injector"}},
            "template": {
                "metadata": {"labels": {"app": "gpu-fault-injector"}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "agent", "image": AGENT_IMAGE, "ports": [{"containerPort": 8083}]}],
                },
            },
        },
    },
]


def make_cluster(name: str) -> Cluster:
    """Return a practice cluster whose agents start."""
    body = {
        "name": name,
        "nodes": NODES,
        "addons": [],
        "present": [AGENT_IMAGE],
        "manifests": AGENTS,
        "ttlSeconds": 3600,
    }
    made = practice._ask("POST", "/control/clusters", body)
    return Cluster.objects.create(name=name, tier="practice", kubeconfig=crypto.seal(made["kubeconfig"]))


def agents_run(kube) -> bool:
    """Tell whether every node has its agent."""
    pods = kube.list("v1", "Pod", "fault-injection-system")
    return len(pods) == 2 and all(pod.get("status", {}).get("phase") == "Running" for pod in pods)


def token(cluster: Cluster, *scopes: str) -> str:
    """Return a token's secret."""
    _, secret = services.issue_api_token(name="tests", cluster=cluster, scopes=scopes, days=1, by="tests")
    return secret


def soon(seconds: float) -> datetime:
    """Return a moment in the future."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


class Program(Client):
    """A program with a token, which speaks JSON."""

    def __init__(self, secret=""):
        super().__init__(headers={"Authorization": f"Bearer {secret}"} if secret else {})

    def send(self, method, path, body=None):
        data = json.dumps(body) if body is not None else ""
        answer = self.generic(method, path, data, content_type="application/json")
        return answer.status_code, answer.json()


def ask_agent(kube, request, node=NODE):
    """Return what the node's agent answers."""
    pods = kube.list("v1", "Pod", "fault-injection-system")
    pod = next(pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] == node)
    return json.loads(kube.call("fault-injection-system", f"pods/{pod}:8083", request).body)


def shown_by_agent(kube, node=NODE):
    """Return the faults that the node's agent shows."""
    return ask_agent(kube, Request("GET", "/faults"), node)["faults"]


def allocatable(kube, node=NODE):
    return kube.get("v1", "Node", node)["status"]["allocatable"]["nvidia.com/gpu"]
