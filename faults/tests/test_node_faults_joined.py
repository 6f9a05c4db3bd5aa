"""Faults of simulated nodes that joined a real control plane: agents are reached by their kubelets' port-forward.

It runs where ``CONTRACT_KUBECONFIG`` names one: ``make contract-real``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from conftest import ROOT, stop, wait_until
from faults import clock, session_agents
from faults.engine import compare, fingerprint
from faults.engine.node_agents import SESSION, AgentLease, find_agent
from faults.injectors import changes as changes_of
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.packs.model import InjectStep
from faults.tests.clusters import eventually, flat
from faults.tests.fakes import MemoryJournal, engine

REAL = os.environ.get("CONTRACT_KUBECONFIG", "")
pytestmark = pytest.mark.skipif(not REAL, reason="needs a real control plane: make contract-real")
DAEMON_SET = ("apps/v1", "DaemonSet", session_agents.NAME, SESSION.namespace)


@pytest.fixture(scope="module")
def kube():
    """The real control plane with a simulated node of eight GPUs, and its agent."""
    command = [sys.executable, "-m", "kubesim", "nodes", "--kubeconfig", REAL]
    process = subprocess.Popen([*command, "--nodes", "1", "--untainted"], cwd=ROOT, stdout=subprocess.DEVNULL)
    kube = Kube(parse(flat(Path(REAL))), reaches_pods=False)
    try:
        wait_until(lambda: gpus(kube) == ["8"], process)
        for obj in session_agents.objects(session_agents.SessionAgents.plan(session_agents.PRACTICE_IMAGE)):
            kube.create(obj)
        wait_until(lambda: find_agent(kube, node_of(kube)), process)
        yield kube
        kube.delete("v1", "Namespace", SESSION.namespace)
        eventually(lambda: not kube.list("v1", "Pod", SESSION.namespace))
    finally:
        kube.close()
        stop(process)
        subprocess.run([*command, "--remove"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60)


def gpus(kube):
    counts = [node["status"].get("allocatable", {}).get("nvidia.com/gpu") for node in kube.list("v1", "Node")]
    return [count for count in counts if count]


def node_of(kube):
    nodes = kube.list("v1", "Node")
    return next(n["metadata"]["name"] for n in nodes if "nvidia.com/gpu" in n["status"].get("allocatable", {}))


def test_an_xid_shows_on_the_node_and_is_taken_back(kube):
    node, journal, before = node_of(kube), MemoryJournal(), fingerprint(kube, [])
    step = InjectStep("xid", {"node": node, "xid": 79, "gpu": 2})
    changes = changes_of([step], AgentLease("run-1", clock.now() + timedelta(minutes=5)))
    engine(kube, journal.open()).apply(changes)
    eventually(lambda: gpus(kube) == ["7"])
    shown = compare(before, fingerprint(kube, []))
    assert f"on node {node}: allocatable nvidia.com/gpu has changed" in shown
    assert f"on node {node}: fault run-1-0 is left over" in shown
    assert engine(kube, journal.open()).revert() == []
    eventually(lambda: compare(before, fingerprint(kube, [])) == [])


def test_a_fault_ends_with_its_lease(kube):
    node, journal = node_of(kube), MemoryJournal()
    step = InjectStep("xid", {"node": node, "xid": 48, "gpu": 1})
    engine(kube, journal.open()).apply(changes_of([step], AgentLease("run-2", clock.now() + timedelta(seconds=4))))
    eventually(lambda: gpus(kube) == ["7"])
    eventually(lambda: gpus(kube) == ["8"])
    assert engine(kube, journal.open()).leftovers() == []
