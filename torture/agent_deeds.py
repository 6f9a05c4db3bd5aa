"""Disturbances at the very moment of an agent call: who dies while the call, or the record of it, is on its way."""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from faults.engine.node_agents import SESSION
from faults.errors import ClusterError
from faults.session_agents import NAME
from torture.held_calls import HeldCall, Moment, no_call
from torture.installation import Installation
from torture.node_picture import Probe
from torture.places import Place, Program, kubectl

CATCH_S = 60.0
TAKEN_OVER_S = 25.0
"""Longer than a worker's lease on a run."""
REFUSED = r"/recover$"


class AgentDisturber:
    """Waits for a moment, does a deed, and lets the held request arrive or lose itself."""

    def __init__(
        self, installation: Installation, place: Place, probe: Probe, node: str, rng: random.Random, folder: Path
    ) -> None:
        self._installation, self._place, self._probe, self._node, self._rng = installation, place, probe, node, rng
        self._folder = folder
        self._thread: threading.Thread | None = None
        self._held = no_call()
        self._more: list[Program] = []
        self.told: list[str] = []

    def arm(self, moment: Moment, deed: str) -> None:
        """Do a deed when a moment comes, in a thread."""
        assert self._place.proxy is not None
        is_lost = self._rng.random() < 0.5
        self._held = self._place.proxy.hold(moment)
        self._thread = threading.Thread(target=self._do, args=(self._held, moment, deed, is_lost))
        self._thread.start()

    def refuse(self) -> None:
        """Let nobody who comes through the proxy take a fault back."""
        assert self._place.proxy is not None
        self._place.proxy.refused = REFUSED
        self.told.append("the agent refuses")

    def _do(self, held: HeldCall, moment: Moment, deed: str, is_lost: bool) -> None:
        if not held.caught.wait(CATCH_S):
            self.told.append(f"{moment.name}: never came")
            held.let_go(is_lost=False)
            return
        done = DEEDS[deed](self)
        self.told.append(f"{moment.name}: {deed}{', the request is lost' if is_lost else ''}")
        held.let_go(is_lost=is_lost)
        if done:
            done()

    def heal(self) -> None:
        """Wait for what is under way, and let everything run again."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._held.let_go(is_lost=False)
        self._installation.resume()
        if self._place.proxy is not None:
            self._place.proxy.refused = ""

    def close(self) -> None:
        """End the workers that were added."""
        for program in self._more:
            program.stop()

    def _pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def _kill(self, *names: str) -> None:
        for name in names:
            self._installation.send(name, signal.SIGKILL)
        self._pause(self._rng.uniform(0, 2))

    def _second_worker(self) -> None:
        command = [sys.executable, "-W", "ignore", "manage.py", "work"]
        self._more.append(Program(command, self._folder / "second-worker.log"))

    def kill_worker(self) -> None:
        """Kill the worker."""
        self._kill("worker")

    def kill_web_and_worker(self) -> None:
        """Kill the worker, and the web process."""
        self._kill("web", "worker")

    def kill_observer_and_worker(self) -> None:
        """Kill the worker, and who would take its run up again."""
        self._kill("observer", "worker")

    def kill_all_three(self) -> None:
        """Kill all of ours that could know of the call."""
        self._kill("web", "observer", "worker")

    def freeze_worker(self) -> Callable[[], None]:
        """Stop the worker until another has taken its run over; it goes on in the middle of it."""
        self._installation.send("worker", signal.SIGSTOP)
        self._second_worker()
        self._pause(TAKEN_OVER_S)
        return lambda: self._installation.resume()

    def kill_first_of_two(self) -> None:
        """Start a second worker, and kill the first."""
        self._second_worker()
        self._pause(4.0)
        self._kill("worker")

    def restart_agent(self) -> None:
        """Let the agent start anew."""
        assert self._place.kubeconfig is not None
        pods = json.loads(self._kubectl("get", "pods", "-n", SESSION.namespace, "-o", "json"))["items"]
        names = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == self._node]
        self._kubectl("delete", "pod", *names, "-n", SESSION.namespace, "--grace-period=0", "--force", "--wait=false")

    def remove_agents(self) -> Callable[[], None]:
        """Let there be no agents for a while."""
        self._select({"torture.example.com/none": "yes"})
        self._pause(self._rng.uniform(2, 8))
        return lambda: self._select(None)

    def _select(self, selector: dict[str, str] | None) -> None:
        patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": selector}}}})
        self._kubectl("patch", "daemonset", NAME, "-n", SESSION.namespace, "--type=merge", "-p", patch)

    def reboot_node(self) -> None:
        """Turn the node off and on again: it is silent for 75 s, and well after that."""
        try:
            agent = self._probe.agent(self._node)
            assert agent is not None
            agent.post(self._probe.kube, "/reboot", {})
        except ClusterError as error:
            self.told.append(f"no reboot: {error}")

    def kill_nodes(self) -> None:
        """Kill the program of all simulated nodes (and of a lent cluster's control plane), and start it again."""
        assert self._place.nodes is not None
        self._place.nodes.kill()
        self._pause(self._rng.uniform(0.5, 3))
        self._place.nodes.start()

    def wait_long(self) -> None:
        """Hold the request for longer than anybody waits for an answer."""
        self._pause(9.0)

    def _kubectl(self, *args: str) -> str:
        assert self._place.kubeconfig is not None
        return kubectl(self._place.kubeconfig, *args)


DEEDS: dict[str, Callable[[AgentDisturber], Callable[[], None] | None]] = {
    "kill -9 worker": AgentDisturber.kill_worker,
    "kill -9 web and worker": AgentDisturber.kill_web_and_worker,
    "kill -9 observer and worker": AgentDisturber.kill_observer_and_worker,
    "kill -9 web, observer and worker": AgentDisturber.kill_all_three,
    "SIGSTOP worker, another takes over": AgentDisturber.freeze_worker,
    "kill -9 the first of two workers": AgentDisturber.kill_first_of_two,
    "agent restarted": AgentDisturber.restart_agent,
    "agents gone for a while": AgentDisturber.remove_agents,
    "node rebooted": AgentDisturber.reboot_node,
    "nodes killed and started": AgentDisturber.kill_nodes,
    "network hangs for 9 s": AgentDisturber.wait_long,
}
