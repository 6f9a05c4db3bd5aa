"""Faults of nodes through their agents: what is sent, what counts as there, and who else may have ended it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults import clock
from faults.engine import State, compare, fingerprint
from faults.engine.model import Request
from faults.engine.node_agents import SESSION, AgentLease
from faults.errors import Conflict, Invalid, Unreachable
from faults.injectors import KINDS, StepError, renew_lease
from faults.injectors import changes as changes_of
from faults.packs.model import InjectStep
from faults.tests.fakes import OF_THE_CLUSTER, FakeCluster, MemoryJournal, engine
from faults.tests.test_engine import Killed, killer
from faults.xids import cuda_errors, xids

POD = "agent-gpu-1"
STEPS = [
    InjectStep("xid", {"node": "gpu-1", "xid": 79, "gpu": 2}),
    InjectStep("service", {"node": "gpu-1", "service": "containerd"}),
    InjectStep("driver", {"node": "gpu-1", "part": "library", "version": "580.105.08"}),
    InjectStep("pressure", {"node": "gpu-1", "resource": "disk", "amount": "75Gi"}),
]


@pytest.fixture
def cluster():
    cluster = FakeCluster(OF_THE_CLUSTER)
    status = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}, "spec": {}, "status": status})
    cluster.add_agent("gpu-1")
    return cluster


@pytest.fixture
def journal():
    return MemoryJournal()


def inject(cluster, journal, *steps, lease=None, **more):
    changes = changes_of(list(steps) or STEPS[:1], lease or AgentLease("run-1", clock.now() + timedelta(hours=1)))
    engine(cluster, journal.open(), **more).apply(changes)


def test_a_fault_is_sent_with_the_runs_lease_and_taken_back_by_its_name(cluster, journal):
    inject(cluster, journal, *STEPS)
    agent = cluster.agents[POD]
    assert all(3590 <= agent.leases[f"run-1-{number}"] <= 3600 for number in range(4))
    assert [(fault["fault_id"], fault["kind"]) for fault in agent.faults.values()] == [
        ("run-1-0", "xid"), ("run-1-1", "service"), ("run-1-2", "driver"), ("run-1-3", "pressure"),
    ]  # fmt: skip
    assert agent.faults["run-1-0"] == {
        "kind": "xid", "xid_type": 79, "gpu_id": 2, "layers": "combined", "fault_id": "run-1-0", "lease": "run-1-0",
    }  # fmt: skip
    order = []
    cluster.before_write = lambda verb, key: order.append((verb, sorted(agent.faults)))
    assert engine(cluster, journal.open()).revert() == []
    assert [names[-1] for verb, names in order if verb == "recover"] == [f"run-1-{n}" for n in (3, 2, 1, 0)]
    assert agent.faults == {}
    assert engine(cluster, journal.open()).leftovers() == []


def test_without_a_live_lease_nothing_is_sent(cluster, journal):
    sent = []
    cluster.before_write = lambda verb, key: sent.append(verb)
    with pytest.raises(Invalid, match="has run out: the run's deadline has passed"):
        inject(cluster, journal, lease=AgentLease("run-1", clock.now()))
    assert sent == []


def test_a_moved_deadline_moves_the_end_of_the_faults(cluster, journal):
    inject(cluster, journal)
    renew_lease(cluster, list(journal.rows.values()), AgentLease("run-1", clock.now() + timedelta(hours=2)))
    assert 7190 <= cluster.agents[POD].leases["run-1-0"] <= 7200


def test_the_fingerprint_tells_of_faults_devices_conditions_labels_and_taints(cluster, journal):
    before = fingerprint(cluster, ["lab"])
    inject(cluster, journal)
    status = {
        "allocatable": {"cpu": "7", "nvidia.com/gpu": "7"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "SysLogsXIDError", "status": "True"}],
    }
    cluster.edit("Node", "gpu-1", {"status": status}, namespace="")
    assert compare(before, fingerprint(cluster, ["lab"])) == [
        "on node gpu-1: allocatable nvidia.com/gpu has changed",
        "on node gpu-1: condition SysLogsXIDError is left over",
        "on node gpu-1: fault run-1-0 is left over",
    ]
    engine(cluster, journal.open()).revert()
    well = {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "SysLogsXIDError", "status": "False"}]}
    cluster.edit("Node", "gpu-1", {"status": well}, namespace="")
    assert compare(before, fingerprint(cluster, ["lab"])) == []
    old = {key: digest for key, digest in before.items() if not key.startswith("on node")}
    assert compare(old, fingerprint(cluster, ["lab"])) == []  # a picture of before nodes were told of


def test_an_agent_that_is_not_there_yet_is_waited_for(cluster, journal):
    cluster.delete("v1", "Pod", POD, SESSION.namespace)
    with pytest.raises(Unreachable, match="No agent runs on Node gpu-1") as caught:
        inject(cluster, journal)
    assert caught.value.retryable
    assert journal.rows == {}
    cluster.add_agent("gpu-1")
    inject(cluster, journal)
    assert journal.rows[0].state is State.APPLIED


def test_an_agent_that_has_gone_is_waited_for_until_the_fault_must_have_ended(cluster, journal, monkeypatch):
    inject(cluster, journal)
    cluster.delete("v1", "Pod", POD, SESSION.namespace)
    with pytest.raises(Unreachable, match="No agent runs on Node gpu-1"):
        engine(cluster, journal.open()).revert()
    later = clock.now() + timedelta(hours=9)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert engine(cluster, journal.open()).revert() == []
    assert journal.rows[0].outcome == "has ended by itself, with its lease"
    assert engine(cluster, journal.open()).leftovers() == []


def test_an_agent_that_has_started_anew_is_asked_for_the_same_fault(cluster, journal):
    inject(cluster, journal)
    cluster.delete("v1", "Pod", POD, SESSION.namespace)
    cluster.add_agent("gpu-1")
    assert engine(cluster, journal.open()).revert() == []
    assert cluster.agents[POD].faults == {}


def test_what_a_candidate_has_repaired_is_left_alone(cluster, journal):
    inject(cluster, journal)
    cluster.agents[POD].faults.clear()
    sent = []
    cluster.before_write = lambda verb, key: sent.append(verb)
    assert engine(cluster, journal.open()).revert() == []
    assert (sent, journal.rows[0].outcome) == (["lease"], "was not there, left alone")


def test_a_call_that_arrives_after_its_revert_begins_nothing(cluster, journal):
    inject(cluster, journal)
    agent = cluster.agents[POD]
    (sent,) = agent.faults.values()
    assert engine(cluster, journal.open()).revert() == []
    assert agent.answer(Request("POST", "/k3/inject", sent))[0] == 403
    assert agent.faults == {}


def test_a_fault_goes_with_its_node(cluster, journal):
    inject(cluster, journal)
    cluster.delete("v1", "Node", "gpu-1")
    assert engine(cluster, journal.open()).revert() == []
    assert journal.rows[0].outcome == "the node has gone"
    renew_lease(cluster, list(journal.rows.values()), AgentLease("run-1"))


@pytest.mark.parametrize("point", ["before-write", "after-write"])
def test_a_worker_that_dies_around_the_call_leaves_one_fault(cluster, journal, point):
    with pytest.raises(Killed):
        inject(cluster, journal, failpoint=killer(point, 1))
    sent = []
    cluster.before_write = lambda verb, key: sent.append(verb)
    inject(cluster, journal)
    assert list(cluster.agents[POD].faults) == ["run-1-0"]
    assert engine(cluster, journal.open()).revert() == []
    assert cluster.agents[POD].faults == {}


def test_a_fault_of_that_name_that_was_there_before_is_nobodys_to_take_back(cluster, journal):
    cluster.agents[POD].faults["run-1-0"] = {"fault_id": "run-1-0"}
    with pytest.raises(Conflict, match="knows the fault run-1-0 before it was asked for"):
        inject(cluster, journal)
    assert journal.rows == {}


def test_the_command_for_a_person_names_the_fault_and_the_agents_path(cluster, journal):
    inject(cluster, journal)

    def refuse(verb, key):
        raise Invalid("no")

    cluster.before_write = refuse
    (stuck,) = engine(cluster, journal.open()).revert()
    assert stuck.command == (
        "kubectl port-forward -n node-agents pod/agent-gpu-1 18083:8083 >/dev/null & "
        "curl -sS --retry 15 --retry-delay 1 --retry-connrefused "
        """-d '{"fault_id": "run-1-0"}' http://127.0.0.1:18083/k3/recover; kill $!; wait"""
    )


@pytest.mark.parametrize(
    ("kind", "spec", "where", "words"),
    [
        ("xid", {"node": "a", "xid": 80}, "xid", "80 is not known; valid are: 13, 31, 43"),
        ("xid", {"node": "a", "xid": 79, "gpu": 16}, "gpu", "16 is not known"),
        ("xid", {"node": "a", "xid": 79, "layers": "all"}, "layers", "valid are: combined, log, cuda, hang"),
        ("xid", {"node": "a", "xid": 63, "layers": "cuda"}, "layers", "gives no CUDA error"),
        ("xid", {"node": "a", "xid": 79, "writer": "all"}, "writer", "valid are: driver, doubled, kernel"),
        ("service", {"node": "a", "service": "sshd"}, "service", "valid are: kubelet, containerd"),
        ("driver", {"node": "a", "part": "all"}, "part", "valid are: library, module, toolkit"),
        ("driver", {"node": "a", "part": "library"}, "version", "is for part: library, which needs it"),
        ("driver", {"node": "a", "part": "module", "version": "580.1"}, "version", "is for part: library"),
        ("pressure", {"node": "a", "resource": "cpu", "amount": "1"}, "resource", "valid are: memory, disk"),
        ("network", {"partition": "mine"}, "partition", "valid are: frontend_worker, worker_nats"),
        ("network", {"partition": "custom"}, "block", "valid are: ingress, egress, all"),
        ("network", {"partition": "custom", "block": "all", "ports": [1]}, "ports", "has no meaning for"),
        ("network", {"partition": "worker_nats"}, "target", "is needed for partition: worker_nats"),
        ("network", {"partition": "worker_worker", "target": {"a": "b"}}, "target", "has no meaning for"),
        ("network", {"partition": "worker_worker", "dns": True}, "dns", "has no meaning for"),
    ],
)
def test_what_a_step_cannot_mean_is_refused_with_what_it_can(kind, spec, where, words):
    with pytest.raises(StepError) as caught:
        KINDS[kind].check(spec)
    assert caught.value.where == where
    assert words in str(caught.value)


def trainer(name, ready="True"):
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    meta = {"name": name, "namespace": "lab", "labels": {"app": "trainer"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": status}


def test_an_xid_that_is_to_end_a_program_waits_until_all_its_pods_are_ready(cluster, journal):
    step = InjectStep("xid", {"node": "gpu-1", "xid": 43, "after": {"namespace": "lab", "app": "trainer"}})
    for made in ((), (trainer("one"), trainer("two", ready="False"))):
        for pod in made:
            cluster.create(pod)
        with pytest.raises(Unreachable, match="Waiting for the pods with app=trainer to be ready") as caught:
            inject(cluster, journal, step)
        assert caught.value.retryable
        assert (cluster.agents[POD].faults, journal.open().records()) == ({}, [])
    cluster.objects["v1", "Pod", "lab", "two"]["status"] = trainer("two")["status"]
    inject(cluster, journal, step)
    assert [fault["xid_type"] for fault in cluster.agents[POD].faults.values()] == [43]


def test_the_namespace_of_the_pods_that_an_xid_waits_for_has_to_be_the_packs():
    spec = {"node": "a", "xid": 43, "after": {"namespace": "lab", "app": "trainer"}}
    assert KINDS["xid"].read_namespaces(spec) == ["lab"]
    assert KINDS["xid"].read_namespaces({"node": "a", "xid": 43}) == []
    assert KINDS["service"].read_namespaces({"node": "a", "service": "kubelet"}) == ()


def test_a_placeholder_may_stand_for_a_number_or_a_word():
    KINDS["xid"].check({"node": "${cluster.node}", "xid": "${parameter.xid}", "gpu": "${parameter.gpu}"})
    (change,) = KINDS["xid"].changes({"node": "a", "xid": "79", "gpu": "3"})
    assert (change.fault["xid_type"], change.fault["gpu_id"]) == (79, 3)


def policy(**spec):
    (change,) = KINDS["network"].changes({"namespace": "lab", "name": "rules", "source": {"app": "web"}, **spec})
    return change.object["spec"]


def test_a_partition_keeps_its_source_from_its_target_and_nobody_else():
    spec = policy(partition="worker_nats", target={"app": "nats"}, source={"app": "web", "tier": "gpu"})
    assert spec["podSelector"] == {"matchLabels": {"app": "nats"}}
    assert [peer["podSelector"]["matchExpressions"][0]["key"] for peer in spec["ingress"][0]["from"][:2]] == [
        "app", "tier",
    ]  # fmt: skip
    assert spec["ingress"][0]["from"][2]["namespaceSelector"]["matchExpressions"][0]["values"] == ["lab"]
    ports = policy(partition="frontend_worker", target={"app": "w"}, ports=[8000, 1])["ingress"][1]["ports"]
    assert [(row["port"], row["endPort"]) for row in ports if row["protocol"] == "TCP"] == [(2, 7999), (8001, 65535)]


def test_a_custom_partition_closes_its_pods_and_leaves_names_open():
    assert policy(partition="custom", block="ingress")["policyTypes"] == ["Ingress"]
    spec = policy(partition="custom", block="all")
    assert (spec["policyTypes"], spec["egress"][0]["ports"][0]["port"]) == (["Ingress", "Egress"], 53)
    assert policy(partition="custom", block="egress", dns=False)["egress"] == []


def test_the_table_of_xids_tells_what_each_means():
    lost = xids()[79]
    assert (lost.running, lost.new, lost.preload, lost.nvml, lost.err_code) == (719, 100, 100, 15, 79)
    assert (lost.sentinel.action, lost.sentinel.cordons, lost.sentinel.repair) == ("RESTART_BM", True, "reboot")
    assert cuda_errors()[100]["driver"] == "CUDA_ERROR_NO_DEVICE"
