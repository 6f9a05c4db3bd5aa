"""Faults of nodes on a practice cluster, from the session's agents to the proof that nothing is left."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from datetime import timedelta

import pytest

from faults import clock, practice, reconciler, selectors, services
from faults.engine.node_agents import SESSION, find_agent
from faults.errors import ClusterError, Unreachable
from faults.models import FaultRun, Step
from faults.tests import node_fault_packs
from faults.tests.clusters import eventually
from faults.tests.conftest import NAMESPACES

pytestmark = pytest.mark.django_db
Status = FaultRun.Status
HOUR_S, LIFE_S = 3600, 120
"""Of the cluster and the session, and of the fault."""
NODE = "${cluster.node}"
LOST = {"kind": "xid", "node": NODE, "xid": 79, "gpu": 2}
OTHERS = [
    {"kind": "xid", "node": NODE, "xid": 48, "gpu": 5},
    {"kind": "driver", "node": NODE, "part": "toolkit"},
    {"kind": "service", "node": NODE, "service": "nvidia-fabricmanager"},
    {"kind": "pressure", "node": NODE, "resource": "memory", "amount": "1Gi"},
]


class Scene:
    """A session with agents, and a fault of a node that is planned."""

    def __init__(self, folder, *steps, gpus):
        node_fault_packs.write(folder, *steps, gpus=gpus)
        (self.version,) = services.seed_catalog(folder=folder)
        self.pack = selectors.pack_of(self.version)
        until = clock.now() + timedelta(seconds=HOUR_S)
        self.deadline = clock.now() + timedelta(seconds=LIFE_S)
        self.cluster = services.ensure_practice_cluster(
            name=f"t-{uuid.uuid4().hex[:10]}", deadline=until, packs=[self.pack], skips=True
        )
        self.kube = selectors.kube_for(self.cluster)
        planned = services.plan_environment_run(
            cluster=self.cluster, namespaces=NAMESPACES, deadline=until, packs=[self.pack]
        )
        self.environment = services.inject_run(run_id=planned.pk, holder="w")
        self.fault = services.plan_fault_run(
            cluster=self.cluster,
            scenario_version=self.version,
            namespaces=NAMESPACES,
            parameters={},
            seed=1,
            deadline=self.deadline,
        )
        self.node = self.fault.parameters["cluster.node"]

    def skip(self, seconds):
        practice.skip(self.cluster.name, seconds)

    def gpus(self):
        return self.kube.get("v1", "Node", self.node)["status"]["allocatable"]["nvidia.com/gpu"]

    def faults(self):
        return find_agent(self.kube, self.node).faults(self.kube)

    def inject(self):
        """Inject; an agent takes one fault a second, so that a worker comes again for the next."""
        while FaultRun.objects.get(pk=self.fault.pk).injected_at is None:
            with suppress(Unreachable):
                services.inject_run(run_id=self.fault.pk, holder="w")
            self.skip(1)

    def revert(self, run):
        run = services.revert_run(run_id=run.pk, holder="w", wait=self.skip)
        assert (run.status, run.residue) == (Status.REVERTED, [])


@pytest.fixture
def scene(practice, db, tmp_path):
    made = []

    def make(*steps, gpus):
        made.append(Scene(tmp_path, *steps, gpus=gpus))
        return made[-1]

    yield make
    for each in made:
        services.release_cluster(cluster=each.cluster)


def test_faults_of_every_kind_show_and_leave_nothing(scene):
    made = scene(LOST, *OTHERS, gpus=6)
    made.inject()
    assert len(made.faults()) == 5
    run = services.confirm_symptom(run_id=made.fault.pk, holder="w", timeout_s=10)
    assert run.status == Status.ACTIVE
    assert set(Step.objects.filter(run=run).values_list("status", flat=True)) == {"applied"}
    with pytest.raises(ClusterError, match="The node agents stay until the xid fault of"):
        services.revert_run(run_id=made.environment.pk, holder="w")
    assert len(made.faults()) == 5
    made.revert(run)
    made.skip(5)
    assert (made.gpus(), made.faults()) == ("8", [])
    made.revert(made.environment)
    assert made.kube.list("v1", "Pod", SESSION.namespace) == []


def test_a_fault_ends_at_its_deadline_though_everything_of_ours_is_dead(scene):
    """Nothing of ours runs here: no web, worker, observer, janitor, and nobody looks into the database."""
    made = scene(LOST, gpus=7)
    made.inject()
    eventually(lambda: made.gpus() == "7")
    made.skip(LIFE_S - 60)
    assert made.gpus() == "7"
    made.kube.delete("apps/v1", "DaemonSet", "node-agent", SESSION.namespace)  # nor the agent itself
    made.skip(60 + 20)
    assert made.gpus() == "8"


def test_the_end_of_a_fault_moves_with_the_runs_deadline(scene):
    made = scene(LOST, gpus=7)
    made.inject()
    FaultRun.objects.filter(pk=made.fault.pk).update(deadline=made.deadline + timedelta(seconds=LIFE_S))
    assert reconciler.tick(clock.now()) >= 1
    made.skip(LIFE_S + 60)
    assert made.gpus() == "7"
    made.skip(LIFE_S)
    assert made.gpus() == "8"


def test_a_node_that_was_booted_and_an_agent_that_started_anew_leave_nothing_to_take_back(scene):
    made = scene(LOST, gpus=7)
    made.inject()
    agent = find_agent(made.kube, made.node)
    made.kube.delete("v1", "Pod", agent.pod, agent.namespace, grace_seconds=0)
    made.skip(10)
    eventually(lambda: find_agent(made.kube, made.node) is not None)
    assert [fault["xid_type"] for fault in made.faults()] == [79]
    find_agent(made.kube, made.node).post(made.kube, "/reboot", {})
    made.skip(300)
    assert (made.gpus(), made.faults()) == ("8", [])
    made.revert(made.fault)
    assert Step.objects.get(run=made.fault).outcome == "was not there, left alone"


def test_the_candidate_sees_neither_the_agents_nor_what_they_say(scene):
    made = scene(LOST, gpus=7)
    agent = find_agent(made.kube, made.node)
    assert agent.base.startswith("/")
    assert len(agent.base) > 20
    images = {
        name
        for node in made.kube.list("v1", "Node")
        for i in node["status"].get("images") or ()
        for name in i["names"]
    }
    pods = made.kube.list("v1", "Pod", SESSION.namespace)
    told = f"{images} {pods} {made.kube.get('v1', 'Namespace', SESSION.namespace)}"
    assert not re.findall(r"\bfault|inject|chaos|interview|simulat", told, re.I)
