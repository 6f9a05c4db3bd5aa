"""Nodes with GPUs whose agents let hardware faults happen, as callers of the API name them."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from faults import clock
from faults.engine.node_agents import Agent, find_agent
from faults.engine.ports import ClusterPort, Obj
from faults.errors import ClusterError, Forbidden, NotFound, Unanswered
from faults.nvsentinel.watched import ORDER_KINDS, ORDER_VERSION, is_done, parse_time

LONGEST_BOOT = timedelta(minutes=10)
"""An order to boot that is older is not being carried out."""


class NoAgent(ClusterError):
    """No agent runs on the node."""


class AgentSilent(ClusterError):
    """The node's agent does not answer: it begins, or its node boots."""


class NoSuchGpu(ClusterError):
    """The node has no GPU of that number."""


class NodeBoots(ClusterError):
    """NVSentinel boots the node: what happens to its GPUs now is gone afterwards."""


def refuse_while_booting(cluster: ClusterPort, node: str) -> None:
    """Raise NodeBoots while an order of NVSentinel's janitor to boot the node is being carried out."""
    with suppress(NotFound, Forbidden):
        for order in cluster.list(ORDER_VERSION, ORDER_KINDS[0]):
            if order["spec"].get("nodeName") == node and _is_under_way(order):
                name = order["metadata"]["name"]
                raise NodeBoots(f"NVSentinel boots the node {node} ({ORDER_KINDS[0]} {name}).", retryable=True)


def _is_under_way(order: Obj) -> bool:
    since = parse_time((order.get("status") or {}).get("startTime"))
    return since is not None and not is_done(order) and clock.now() - since < LONGEST_BOOT


def require_gpu(cluster: ClusterPort, node: str, gpu: int) -> Agent:
    """Return the agent of a node that has this GPU.

    Raises ``NotFound`` (the node), ``NoAgent``, ``AgentSilent`` and ``NoSuchGpu``.
    """
    cluster.get("v1", "Node", node)
    agent = find_agent(cluster, node)
    if agent is None:
        raise NoAgent(f"No agent for GPU faults runs on the node {node}.")
    gpus = _gpu_count(cluster, agent)
    if gpu >= gpus:
        there = f"it has 0 to {gpus - 1}" if gpus else "it has none"
        raise NoSuchGpu(f"The node {node} has no GPU {gpu}: {there}.")
    return agent


def _gpu_count(cluster: ClusterPort, agent: Agent) -> int:
    try:
        return agent.gpu_count(cluster)
    except Unanswered as exc:
        raise AgentSilent(f"The agent of the node {agent.node} does not answer: {exc.message}") from exc
