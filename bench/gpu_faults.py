"""An Xid on a practice cluster: the seconds until each layer shows it, and until each is well again.

It is let happen as sessions do it: through the agent, which is reached through the API server. The clock starts
before the request is sent, and each layer is asked as a person would ask it.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.figures import Figure, report
from bench.gpu_fault_cluster import GPU, Looker, gpu_cluster
from faults.engine.node_agents import AgentLease
from faults.errors import ClusterError

ROUNDS = 5
XIDS = (79, 48, 95, 79, 48)
AT_ONCE_S, CLEARED_S = 2.0, 5.0
SCRAPE_S, MONITOR_S = 15.0, 30.0
"""Between two polls: dcgm-exporter is asked, and Prometheus asks it; NVSentinel's monitor reads the log."""
SLACK_S = 2.0
"""What somebody who polls needs for one poll."""
PATIENCE_S = 60.0
POLL_S = 0.05
GOALS = {
    "kernel log": AT_ONCE_S,
    "nvidia-smi": AT_ONCE_S,
    "CUDA, running process": AT_ONCE_S,
    "allocatable": AT_ONCE_S,
    "dcgm-exporter": AT_ONCE_S,
    "Prometheus": SCRAPE_S + SLACK_S,
    "NVSentinel": MONITOR_S + SLACK_S,
}
CLEARED = ("nvidia-smi", "CUDA, new process", "allocatable", "agent")
Look = Callable[[], bool]
Times = dict[str, float]


def first_true(looks: Mapping[str, Look], act: Callable[[], object]) -> Times:
    """Act, and return for each layer after how many seconds it was first seen; each has a thread of its own."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(looks)) as pool:
        asked = {name: pool.submit(_until, look, began) for name, look in looks.items()}
        act()
        return {name: future.result() for name, future in asked.items()}


def _until(look: Look, began: float) -> float:
    paused = threading.Event()
    while (late := time.monotonic() - began) < PATIENCE_S:
        with suppress(ClusterError):
            if look():
                return time.monotonic() - began
        paused.wait(POLL_S)
    return late


def one_round(looker: Looker, number: int) -> tuple[Times, Times]:
    """Return after how many seconds an Xid showed in each layer, and after how many each was well again."""
    xid, name = XIDS[number % len(XIDS)], f"bench-{number}"
    looker.train()
    shown = {layer: lambda layer=layer: looker.shows(layer, xid) for layer in GOALS}
    began = first_true(shown, lambda: _inject(looker, xid, name))
    well = {layer: lambda layer=layer: looker.is_well(layer) for layer in CLEARED}
    ended = first_true(well, lambda: looker.agent().recover(looker.kube, name))
    return began, ended


def _inject(looker: Looker, xid: int, name: str) -> None:
    agent = looker.agent()
    agent.take_lease(looker.kube, AgentLease(name))
    fault: dict[str, Any] = {"kind": "xid", "xid_type": xid, "gpu_id": GPU, "layers": "combined"}
    agent.inject(looker.kube, {**fault, "fault_id": name, "lease": name})


def figures(taken: list[tuple[Times, Times]]) -> Iterator[Figure]:
    """Yield the worst of all rounds for each layer, beside its goal."""
    for name, goal in GOALS.items():
        yield Figure(f"{name} shows it", max(began[name] for began, _ in taken), "s", goal)
    for name in CLEARED:
        yield Figure(f"{name} is well", max(ended[name] for _, ended in taken), "s", CLEARED_S)


@contextmanager
def _looker() -> Iterator[Looker]:
    with tempfile.TemporaryDirectory(prefix="fl-bench-") as folder, gpu_cluster(Path(folder)) as looker:
        yield looker


def main() -> int:
    """Measure a few Xids."""
    with _looker() as looker:
        taken = []
        for number in range(ROUNDS):
            taken.append(one_round(looker, number))
            print(f"  Xid {XIDS[number]}: {json.dumps([_rounded(times) for times in taken[-1]])}", flush=True)
    return report("gpu_faults", list(figures(taken)))


def _rounded(times: Times) -> Times:
    return {name: round(seconds, 2) for name, seconds in times.items()}
