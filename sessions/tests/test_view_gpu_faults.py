"""Faults that an interviewer injects by hand: the form with its preview, the panel, and what is left at the end."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from faults import practice as practice_host_api
from faults import reconciler, session_agents
from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.engine.node_agents import Agent
from faults.gpu_reads import OPERATOR, gpu_facts, gpu_nodes, operator_pod
from faults.models import Cluster, FaultRun, InjectedFault, Step
from faults.session_agents import PRACTICE_IMAGE, SessionAgents
from sessions import events, jobs, panels, services
from sessions.models import InterviewSession
from sessions.observer.sentinel_watch import xid_faults
from sessions.services import phases
from sessions.tests.conftest import eventually

HOUR = timedelta(hours=1)
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def host_cluster(practice_host, django_db_setup, django_db_blocker):
    """A practice cluster with node agents, for all tests of the module; each test has a row of its own for it."""
    name, agents = f"g-{uuid.uuid4().hex[:10]}", SessionAgents.plan(PRACTICE_IMAGE)
    with override_settings(**practice_host.settings), django_db_blocker.unblock():
        cluster = fault_services.ensure_practice_cluster(name=name, deadline=datetime.now(UTC) + HOUR)
        kube = fault_selectors.kube_for(cluster)
        for obj in session_agents.objects(agents):
            kube.create(obj)
        eventually(lambda: len(gpu_nodes(kube)) == 3)
        eventually(lambda: all(gpu_facts(kube, node.name, 0).bus for node in gpu_nodes(kube)))
        sealed = cluster.kubeconfig
        cluster.delete()
        yield name, sealed, agents
        practice_host_api.drop(name)


@pytest.fixture
def standing(draft, ada, host_cluster, practice):
    """A live session on that cluster; whatever a test leaves there is taken back."""
    name, sealed, agents = host_cluster
    cluster = Cluster.objects.create(name=name, tier=Cluster.Tier.PRACTICE, kubeconfig=sealed)
    environment = FaultRun.objects.create(
        purpose=FaultRun.Purpose.ENVIRONMENT,
        cluster=cluster,
        namespaces={"workloads": "ml-training"},
        parameters={fault_selectors.AGENTS: agents.dump()},
        status=FaultRun.Status.ACTIVE,
        deadline=datetime.now(UTC) + HOUR,
    )
    yield start(draft, environment, ada)
    for fault in InjectedFault.objects.filter(recovered_at=None):
        fault_services.recover_fault(cluster=cluster, fault_id=fault.fault_id, holder="test")


@pytest.fixture
def own_cluster(draft, ada, practice, first_pack):
    """A live session on a cluster of its own, whose environment is really there."""
    deadline, name = datetime.now(UTC) + HOUR, f"g-{uuid.uuid4().hex[:10]}"
    cluster = fault_services.ensure_practice_cluster(name=name, deadline=deadline)
    environment = fault_services.plan_environment_run(
        cluster=cluster, namespaces={"workloads": "ml-training"}, deadline=deadline
    )
    environment.parameters[fault_selectors.AGENTS] = SessionAgents.plan(PRACTICE_IMAGE).dump()
    environment.save()
    fault_services.inject_run(run_id=environment.pk, holder="test")
    yield start(draft, environment, ada)
    practice_host_api.drop(name)


def start(draft, environment, ada):
    """Return the session of no scenarios, started in this environment."""
    draft.scenarios.all().delete()
    session = InterviewSession.objects.filter(pk=draft.pk)
    state = InterviewSession.State.READY
    session.update(cluster=environment.cluster, environment=environment, state=state)
    return services.start(session=session.get(), actor=ada)


@pytest.fixture
def ask(client, ada):
    """Ask for the form, or send it, as ada."""
    client.force_login(ada)

    def go(session, data=None, *, send=False, path="", headers=HTMX):
        call = client.post if send else client.get
        answer = call(f"/sessions/{session.uuid}/faults/{path}", data or {}, headers=headers)
        return answer.status_code, answer.content.decode()

    return go


def node_of(session):
    return services.nodes_to_hit(session=session)[0]


def test_a_fault_is_previewed_injected_shown_and_taken_back(standing, ask, ada, kinds):
    node = node_of(standing)
    status, text = ask(standing)
    assert status == 200
    assert "GPU has fallen off the bus." in text
    assert "nvidia.com/gpu goes from 8 to 7" in text
    assert "address of GPU" not in text  # nvidia-smi has told it
    assert "The guide names 217" in ask(standing, {"xid": "74"})[1]
    chosen = {"node": node.name, "gpu": "1", "xid": "79", "layers": "combined", "seconds": "300"}
    status, text = ask(standing, chosen, send=True)
    assert (status, f"Xid 79 is on GPU 1 of {node.name}." in text) == (200, True), text

    kube = fault_selectors.kube_for(standing.cluster)
    eventually(lambda: kube.get("v1", "Node", node.name)["status"]["allocatable"]["nvidia.com/gpu"] == "7")
    fault = InjectedFault.objects.get()
    standing.refresh_from_db()
    panel = panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)
    assert "GPU has fallen off the bus" in panel
    assert "Take back" in panel
    assert [(one.node, one.gpu, one.xid) for one in xid_faults(standing.cluster)] == [(node.name, 1, 79)]
    assert (fault.run.deadline - fault.created_at).total_seconds() == 300

    status, text = ask(standing, path=f"{fault.fault_id}/checks/")
    assert status == 200
    assert "journalctl -k | grep" in text
    assert ": 79, GPU has fallen off the bus." in text
    assert text.count("As expected") == 4  # agent, GPU, log, and what the node offers
    assert "Look here" not in text
    assert "NVSentinel is not installed" in text

    status, text = ask(standing, send=True, path=f"{fault.fault_id}/recover/")
    assert status == 200
    assert "Reverted" in text
    assert "Take back" not in text
    eventually(lambda: kube.get("v1", "Node", node.name)["status"]["allocatable"]["nvidia.com/gpu"] == "8")
    assert kinds(standing)[-2:] == ["gpu_fault.injected", "gpu_fault.recovered"]
    ask(standing, send=True, path=f"{fault.fault_id}/recover/")
    assert kinds(standing)[-1] == "gpu_fault.recovered"
    assert kinds(standing).count("gpu_fault.recovered") == 1


def test_the_kernel_log_has_exactly_the_previewed_lines(standing, ask):
    node = node_of(standing)
    chosen = {"node": node.name, "gpu": "2", "xid": "79", "layers": "log"}
    _, text = ask(standing, chosen)
    promised = [line for line in text.splitlines() if "NVRM:" in line]
    promised = [line.rpartition(">")[2] for line in promised]
    assert len(promised) == 7  # six of Xid 79, and Xid 154
    ask(standing, chosen, send=True)
    kube = fault_selectors.kube_for(standing.cluster)
    _, log = kube.run_command(OPERATOR, operator_pod(kube, node.name), "", ["dmesg"])
    written = [line.partition("] ")[2] for line in log.splitlines() if "NVRM" in line]
    assert written[-7:] == promised
    assert kube.get("v1", "Node", node.name)["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_the_end_of_the_session_leaves_nothing_of_it(own_cluster, ask, ada, monkeypatch):
    standing = own_cluster
    monkeypatch.setattr(phases, "HOLD_S", 60.0)
    ask(standing, {"node": node_of(standing).name, "gpu": "0", "xid": "95", "layers": "combined"}, send=True)
    fault = InjectedFault.objects.get()
    services.extend(session=standing, minutes=10, actor=ada)
    fault.run.refresh_from_db()
    standing.environment.refresh_from_db()
    assert fault.run.deadline == standing.environment.deadline  # it has no duration of its own
    services.end(session=standing, actor=ada)
    services.release(session=standing, actor=ada)
    jobs.release_session(standing.pk)
    fault.run.refresh_from_db()
    assert (fault.run.status, fault.run.residue, fault.run.dropped) == (FaultRun.Status.REVERTED, [], False)
    assert standing.phases.get(key="by-hand").status == "done"
    standing.environment.refresh_from_db()
    assert standing.environment.residue == []


def test_what_the_cluster_refuses_stands_above_the_form(standing, ask):
    chosen = {"node": node_of(standing).name, "gpu": "0", "xid": "48", "layers": "combined"}
    ask(standing, chosen, send=True)
    status, text = ask(standing, chosen, send=True)
    assert (status, "has the fault" in text) == (409, True)
    status, text = ask(standing, {**chosen, "xid": "7"}, send=True)
    assert (status, "Select a valid choice" in text) == (422, True)
    status, text = ask(standing, {**chosen, "node": "gone"}, send=True)
    assert (status, "The cluster no longer has this node" in text) == (422, True)
    status, text = ask(standing, {**chosen, "gpu": "2", "xid": "63", "layers": "cuda"})
    assert (status, "gives no CUDA error" in text) == (422, True)


def test_a_gpu_with_a_fault_is_marked_and_the_next_one_is_proposed(standing, ask):
    node = node_of(standing).name
    ask(standing, {"node": node, "gpu": "0", "xid": "79", "layers": "combined"}, send=True)
    _, text = ask(standing)
    assert re.search(r'<option value="0"[^>]*>0: has Xid 79</option>', text)
    assert re.search(r'<option value="1" selected>1</option>', text)
    assert "address of GPU" not in text


def test_a_fault_that_could_not_be_injected_says_so_and_has_no_checks(standing, ask, monkeypatch):
    monkeypatch.setattr(Agent, "fault", lambda *_: None)
    status, _ = ask(standing, {"node": node_of(standing).name, "gpu": "4", "xid": "43"}, send=True)
    assert status == 409
    standing.refresh_from_db()
    panel = panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)
    assert 'data-value="Not injected"' in panel
    assert "took the fault but does not show it" in panel
    assert "Check Xid" not in panel


def test_while_paused_nothing_is_injected_and_all_can_be_taken_back(standing, ask, ada):
    chosen = {"node": node_of(standing).name, "gpu": "0", "xid": "43", "layers": "combined"}
    ask(standing, chosen, send=True)
    services.pause(session=standing, actor=ada)
    status, text = ask(standing, {**chosen, "gpu": "1"}, send=True)
    assert (status, "it must be live to inject a fault" in text) == (409, True)
    standing.refresh_from_db()
    panel = panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)
    assert "Inject…" not in panel
    assert "Take back" in panel


def test_what_is_injected_while_the_session_stops_is_taken_back(standing, ask, ada, monkeypatch):
    def pausing(**fault):
        services.pause(session=standing, actor=ada)
        return inject(**fault)

    inject = fault_services.inject_xid
    monkeypatch.setattr(fault_services, "inject_xid", pausing)
    status, text = ask(standing, {"node": node_of(standing).name, "gpu": "3", "xid": "43"}, send=True)
    assert (status, "so that the fault was taken back" in text) == (409, True)
    assert InjectedFault.objects.get().recovered_at is not None


@pytest.fixture
def program(client):
    """Ask the fault injection API as a program with a token for the session's cluster."""

    def go(session, method, path, body=None):
        scopes = {"name": "nightly", "scopes": ["faults:read", "faults:inject"], "days": 1, "by": "tests"}
        _, secret = fault_services.issue_api_token(cluster=session.cluster, **scopes)
        headers = {"Authorization": f"Bearer {secret}"}
        data = json.dumps(body or {})
        answer = client.generic(method, f"/api/v1/{path}", data, content_type="application/json", headers=headers)
        return answer.status_code, answer.json()

    return go


def test_a_programs_faults_are_the_sessions_and_end_with_it(own_cluster, ada, program, monkeypatch):
    session, node = own_cluster, node_of(own_cluster).name
    monkeypatch.setattr(phases, "HOLD_S", 60.0)
    status, fault = program(session, "POST", "faults/gpu/inject/xid-43", {"node_name": node, "gpu_id": 1})
    assert status == 200, fault
    session.environment.refresh_from_db()
    assert datetime.fromisoformat(fault["expires_at"]) <= datetime.now(UTC) + timedelta(hours=8)
    closed = {"partition_type": "custom", "source": "app=web", "target": "app=db"}
    own = next(iter(session.environment.namespaces.values()))
    bodies = [
        {**closed, "parameters": {"namespace": name, "block": "all"}, "duration": 1200}
        for name in (own, "monitoring")
    ]
    for body in bodies:
        status, partition = program(session, "POST", "faults/network/inject", body)
        assert status == 200, partition
    session.refresh_from_db()
    panel = panels.render(session, "gpu-faults", panels.INTERVIEWER, None)
    assert f"Xid 43 on GPU 1 of {node}" in panel
    assert f"Network custom {partition['target']}" in panel
    assert panel.count("The API, token nightly") == 3
    assert panel.count("Take back") == 6  # three buttons, each with its name
    told = [(event.kind, event.actor) for event in events.chain(session)][-3:]
    injected = [("gpu_fault.injected", "token:nightly"), *[("network_fault.injected", "token:nightly")] * 2]
    assert told == injected

    services.end(session=session, actor=ada)
    status, refusal = program(session, "POST", "faults/gpu/inject/xid-43", {"node_name": node, "gpu_id": 2})
    assert (status, refusal["code"]) == (409, "session_not_live")
    services.release(session=session, actor=ada)
    jobs.release_session(session.pk)
    session.refresh_from_db()
    assert session.residue == []
    faults = InjectedFault.objects.select_related("run")
    assert [(row.run.status, row.run.residue) for row in faults] == [("reverted", [])] * 3
    ended = [event for event in events.chain(session) if event.kind.endswith("_fault.recovered")]
    assert [event.actor for event in ended] == ["system"] * 3
    assert "with all faults of the session" in ended[0].payload["text"]
    assert events.verify_chain(session) is None


def test_the_end_of_a_faults_time_is_on_the_time_line(standing, program):
    node = node_of(standing).name
    _, fault = program(standing, "POST", "faults/gpu/inject/xid-43", {"node_name": node, "gpu_id": 6, "duration": 60})
    run = InjectedFault.objects.get(fault_id=fault["fault_id"]).run
    FaultRun.objects.filter(pk=run.pk).update(deadline=datetime.now(UTC) - timedelta(seconds=1))
    reconciler.tick(datetime.now(UTC))
    last = events.chain(standing)[-1]
    assert (last.kind, last.payload["reason"]) == ("gpu_fault.recovered", "its time was over")


def test_the_panel_has_the_faults_of_scenarios_which_go_with_them(standing, scenario_version, ask):
    """A scenario's Xid that the node has no more, since somebody has repaired it."""
    node = node_of(standing).name
    run = FaultRun.objects.create(
        cluster=standing.cluster,
        scenario_version=scenario_version,
        status=FaultRun.Status.ACTIVE,
        deadline=datetime.now(UTC),
    )
    standing.scenarios.create(scenario_version=scenario_version, run=run, position=1)
    fault = {"kind": "xid", "xid_type": 79, "gpu_id": 4, "layers": "combined"}
    target = {"apiVersion": "v1", "kind": "Node", "namespace": "", "name": node}
    made = {"kind": "xid", "target": target, "undo": {"fault_id": "run-1-0", "fault": fault}, "status": "applied"}
    Step.objects.create(run=run, index=0, applied_at=datetime.now(UTC), **made)
    standing.refresh_from_db()
    panel = panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)
    assert f"Xid 79 on GPU 4 of {node}" in panel
    assert f"Scenario {scenario_version.title}" in panel
    assert "; ends" in panel
    assert "Take back" not in panel
    FaultRun.objects.filter(pk=run.pk).update(status=FaultRun.Status.RESOLVED)
    assert "; ends" not in panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)
    status, text = ask(standing, path="run-1-0/checks/")
    assert (status, "has repaired the GPU" in text) == (200, True)
    assert "Look at: The node" in text
    assert ask(standing, send=True, path="run-1-0/recover/")[0] == 409
    Step.objects.update(status="reverted")
    assert "No GPU has a fault of ours" in panels.render(standing, "gpu-faults", panels.INTERVIEWER, None)


def test_without_node_agents_there_is_no_panel_and_the_form_says_why(live, ask):
    assert " hidden" in panels.render(live, "gpu-faults", panels.INTERVIEWER, None)
    for path, why in (("", "has no node agents"), ("gpu_xid_79-00000000/checks/", "has no such fault")):
        status, text = ask(live, path=path)
        assert (status, why in text) == (409, True)


def test_it_is_nobodys_but_the_interviewers(client, mallory, live):
    client.force_login(mallory)
    assert client.get(f"/sessions/{live.uuid}/faults/").status_code == 404
    assert client.get(f"/sessions/{live.uuid}/faults/gpu_xid_79-00000000/checks/").status_code == 404
    assert client.post(f"/sessions/{live.uuid}/faults/").status_code == 404
    with pytest.raises(KeyError):
        panels.render(live, "gpu-faults", panels.CANDIDATE, None)
