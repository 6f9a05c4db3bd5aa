"""Nodes with GPUs whose agents let hardware faults happen, as callers of the API name them."""

from __future__ import annotations

from faults.engine.node_agents import Agent, find_agent
from faults.engine.ports import ClusterPort
from faults.errors import ClusterError


class NoAgent(ClusterError):
    """No agent runs on the node, or it does not answer."""


class NoSuchGpu(ClusterError):
    """The node has no GPU of that number."""


def require_gpu(cluster: ClusterPort, node: str, gpu: int) -> Agent:
    """Return the agent of a node that has this GPU. Raises ``NotFound`` (the node), ``NoAgent`` and ``NoSuchGpu``."""
    cluster.get("v1", "Node", node)
    agent = find_agent(cluster, node)
    if agent is None:
        raise NoAgent(f"No agent for GPU faults runs on the node {node}.")
    gpus = agent.gpu_count(cluster)
    if gpu >= gpus:
        there = f"it has 0 to {gpus - 1}" if gpus else "it has none"
        raise NoSuchGpu(f"The node {node} has no GPU {gpu}: {there}.")
    return agent
