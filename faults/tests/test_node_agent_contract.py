"""One contract for both agents: that of simulated nodes in a practice cluster, and that of real nodes.

What a real node cannot do (services, driver, pressure, layers other than the log) is in ``test_node_agent.py``.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from faults import packs, selectors, services, session_agents
from faults import practice as practice_clusters
from faults.engine.model import Request
from faults.engine.node_agents import find_agent
from faults.injectors import KINDS
from faults.tests import node_fault_packs
from faults.tests.clusters import eventually
from faults.tests.real_agents import RealAgent

pytestmark = pytest.mark.django_db
HOLDER = "run-1"


class SimulatedAgent:
    """The agent of a simulated node, asked through the API server."""

    def __init__(self, cluster):
        self._cluster, self._kube = cluster, selectors.kube_for(cluster)
        for obj in session_agents.objects(session_agents.SessionAgents.plan(session_agents.PRACTICE_IMAGE)):
            self._kube.create(obj)
        nodes = self._kube.list("v1", "Node")
        node = next(n["metadata"]["name"] for n in nodes if n["status"]["allocatable"].get("nvidia.com/gpu") == "8")
        self._agent = eventually(lambda: find_agent(self._kube, node))

    def ask(self, method, path, body=None):
        request = Request(method, f"{self._agent.base}{path}", body)
        reply = self._kube.call(self._agent.namespace, self._agent.server, request)
        return reply.status, json.loads(reply.body)

    def wait(self, seconds):
        practice_clusters.skip(self._cluster.name, seconds)

    def restart(self):
        pod = self._agent.pod
        self._kube.delete("v1", "Pod", pod, self._agent.namespace, grace_seconds=0)
        self.wait(10)
        self._agent = eventually(lambda: (a := find_agent(self._kube, self._agent.node)) and a.pod != pod and a)


@pytest.fixture(scope="module")
def simulated(practice_host, django_db_setup, django_db_blocker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pack")
    node_fault_packs.write(folder, {"kind": "xid", "node": "${cluster.node}", "xid": 79}, gpus=7)
    pack = packs.parse(packs.load_folder(folder / node_fault_packs.SLUG)).bind()
    with override_settings(**practice_host.settings), pytest.MonkeyPatch.context() as patch:
        patch.setattr("faults.kube.client.TIMEOUT", (10.0, 60.0))  # as the fixture `practice`: for a busy machine
        patch.setattr("faults.practice.TIMEOUT_S", 60)
        with django_db_blocker.unblock():
            name, until = f"t-{uuid.uuid4().hex[:10]}", datetime.now(UTC) + timedelta(hours=9)
            cluster = services.ensure_practice_cluster(name=name, deadline=until, packs=[pack], skips=True)
        yield SimulatedAgent(cluster)
        with django_db_blocker.unblock():
            services.release_cluster(cluster=cluster)
            cluster.delete()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    made = RealAgent(tmp_path_factory.mktemp("node"))
    yield made
    made.stop()


@pytest.fixture(params=["simulated", "real"])
def agent(request):
    """An agent without faults, and with a lease."""
    found = request.getfixturevalue(request.param)
    found.ask("POST", "/lease", {"holder": HOLDER, "seconds": 0})
    assert found.ask("GET", "/faults") == (200, {"faults": [], "count": 0})
    found.ask("POST", "/lease", {"holder": HOLDER, "seconds": 600})
    found.wait(1)
    return found


def inject(agent, name, code=79, **more):
    body = {"fault_id": name, "lease": HOLDER, "xid_type": code, "gpu_id": 1, "layers": "log", **more}
    return agent.ask("POST", "/inject-xid", body)


def active(agent):
    return [fault["fault_id"] for fault in agent.ask("GET", "/faults")[1]["faults"]]


def test_health_tells_of_the_node_and_its_faults(agent):
    inject(agent, "one")
    status, said = agent.ask("GET", "/health")
    assert (status, said["status"], said["gpu_count"], said["active_faults"]) == (200, "healthy", 8, 1)
    assert isinstance(said["node"], str)
    assert isinstance(said["dcgm_available"], bool)


def test_a_fault_is_told_with_all_that_was_asked_for_and_its_end(agent):
    status, said = inject(agent, "one", duration=30)
    asked = {"fault_id": "one", "kind": "xid", "xid_type": 79, "gpu_id": 1, "layers": "log", "lease": HOLDER}
    assert (status, said["status"]) == (200, "injected")
    assert asked.items() <= said.items()
    injected, until, expires = (datetime.fromisoformat(said[key]) for key in ("injected_at", "until", "expires_at"))
    assert abs(until - injected - timedelta(seconds=30)) < timedelta(seconds=1)
    assert abs(until - expires) < timedelta(seconds=1)
    assert asked.items() <= agent.ask("GET", "/faults/one")[1].items()


def test_the_general_route_takes_an_xid_too(agent):
    body = {"kind": "xid", "fault_id": "one", "lease": HOLDER, "xid_type": "48", "gpu_id": "2", "layers": "log"}
    status, said = agent.ask("POST", "/inject", body)
    assert (status, said["xid_type"], said["gpu_id"]) == (200, 48, 2)


def test_a_fault_is_taken_back_once(agent):
    inject(agent, "one")
    assert agent.ask("POST", "/recover", {"fault_id": "one"}) == (200, {"status": "recovered", "fault_id": "one"})
    assert agent.ask("POST", "/recover", {"fault_id": "one"})[0] == 404
    assert agent.ask("GET", "/faults/one")[0] == 404


def test_a_fault_ends_after_its_duration(agent):
    inject(agent, "one", duration=30)
    agent.wait(25)
    assert active(agent) == ["one"]
    agent.wait(10)
    assert active(agent) == []


def test_nothing_happens_without_a_live_lease(agent):
    for lease, status in ((None, 400), ("", 400), ("nobody", 403)):
        assert inject(agent, "one", lease=lease)[0] == status
    agent.ask("POST", "/lease", {"holder": HOLDER, "seconds": 5})
    agent.wait(6)
    status, said = inject(agent, "one")
    assert (status, said["detail"].split(";")[0]) == (403, f"lease: {HOLDER} has no live lease here")
    assert active(agent) == []


def test_a_fault_lives_as_long_as_its_lease_is_prolonged(agent):
    agent.ask("POST", "/lease", {"holder": HOLDER, "seconds": 60})
    inject(agent, "one")
    agent.ask("POST", "/lease", {"holder": HOLDER, "seconds": 90})
    agent.wait(70)
    assert active(agent) == ["one"]
    agent.wait(25)
    assert active(agent) == []


def test_a_lease_that_is_given_back_ends_its_faults_and_no_others(agent):
    agent.ask("POST", "/lease", {"holder": "run-2", "seconds": 60})
    inject(agent, "one")
    agent.wait(1)
    inject(agent, "two", gpu_id=3, lease="run-2")
    agent.ask("POST", "/lease", {"holder": HOLDER, "seconds": 0})
    assert active(agent) == ["two"]
    agent.ask("POST", "/lease", {"holder": "run-2", "seconds": 0})
    assert active(agent) == []


def test_the_same_request_again_changes_nothing_and_another_of_that_name_is_refused(agent):
    first = inject(agent, "one")[1]
    again = inject(agent, "one")[1]
    assert first.keys() == again.keys()
    assert inject(agent, "one", code=48)[0] == 409
    assert active(agent) == ["one"]


def test_there_is_one_fault_a_second_at_most(agent):
    assert inject(agent, "one")[0] == 200
    assert inject(agent, "two", gpu_id=2)[0] == 429
    agent.wait(1)
    assert inject(agent, "two", gpu_id=2)[0] == 200


def test_faults_and_leases_outlive_the_agent(agent):
    inject(agent, "one", duration=60)
    agent.restart()
    assert active(agent) == ["one"]
    agent.ask("POST", "/lease", {"holder": "run-3", "seconds": 60})
    assert inject(agent, "one", duration=60)[0] == 200
    agent.wait(65)
    assert active(agent) == []


@pytest.mark.parametrize(
    ("method", "route", "body", "status"),
    [
        ("POST", "/inject-xid", {"xid_type": 0}, 400),
        ("POST", "/inject-xid", {"xid_type": 999}, 400),
        ("POST", "/inject-xid", {"xid_type": 79.0}, 400),
        ("POST", "/inject-xid", {"xid_type": True}, 400),
        ("POST", "/inject-xid", {"xid_type": "79; reboot"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "gpu_id": 8}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "gpu_id": -1}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "all"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "log", "fault_id": "../a"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "log", "fault_id": "a\n"}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "log", "duration": 0}, 400),
        ("POST", "/inject-xid", {"xid_type": 79, "layers": "log", "duration": 10**6}, 400),
        ("POST", "/inject", {"kind": "quake"}, 400),
        ("POST", "/inject-xid", [], 422),
        ("POST", "/lease", {"holder": HOLDER, "seconds": 10**6}, 400),
        ("POST", "/lease", {"holder": "a b", "seconds": 10}, 400),
        ("POST", "/recover", {"fault_id": "none"}, 404),
        ("POST", "/health", {}, 405),
        ("POST", "/else", {}, 404),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(agent, method, route, body, status):
    whole = {"fault_id": "one", "lease": HOLDER, **body} if isinstance(body, dict) else body
    found, said = agent.ask(method, route, whole)
    assert (found, active(agent)) == (status, [])
    assert said["detail"]


def test_an_xid_step_of_a_pack_is_what_the_agents_take(agent):
    """The engine's own request, with every field that a step may have."""
    spec = {"node": "n", "xid": 94, "gpu": 1, "layers": "log", "writer": "doubled"}
    KINDS["xid"].check(spec)
    (change,) = KINDS["xid"].changes(spec)
    status, said = agent.ask("POST", "/inject", {**change.fault, "fault_id": "one", "lease": HOLDER})
    assert (status, said["xid_type"]) == (200, 94)
    assert agent.ask("POST", "/inject", {**change.fault, "fault_id": "one", "lease": HOLDER})[0] == 200
