"""NVSentinel on the interviewer's page: what the observer makes of a cluster, and how the panel shows it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults.models import Cluster, FaultRun, Step
from faults.nvsentinel import GpuFault, Watched, find_stages, judge
from sessions import panels
from sessions.kinds import EVENT, NODE, POD
from sessions.live import LiveState, SentinelRow, SentinelState
from sessions.observer.cache import Cache
from sessions.observer.sentinel_watch import SentinelWatch, xid_faults
from sessions.tests.conftest import NOON

MONITOR = {
    "metadata": {"name": "syslog-health-monitor-x", "namespace": "nvsentinel", "uid": "m"},
    "spec": {"nodeName": "gpu-1"},
    "status": {"phase": "Running"},
}


def node(**metadata):
    """Return a well node, with more metadata."""
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {}, "capacity": {}}
    return {"metadata": {"name": "gpu-1", "uid": "n", **metadata}, "spec": {}, "status": status}


def state_of(xid, *, after=0.0, nodes=(), events=()):
    """Return what NVSentinel has come to so many seconds after an Xid."""
    fault = GpuFault("gpu-1", 0, xid, NOON)
    watched = Watched(nodes or [node()], [MONITOR], events)
    stages = find_stages(fault, watched)
    verdict = judge(fault, stages, watched, NOON + timedelta(seconds=after))
    return SentinelState(True, (SentinelRow(fault, stages, verdict),))


def draw(session, state):
    return panels.render(session, "sentinel", panels.INTERVIEWER, LiveState(sentinel=state, synced_at=NOON))


class FakeKube:
    """A cluster that has one order, and a breaker that is closed."""

    def __init__(self):
        self.asked = []

    def list(self, api_version, kind):
        self.asked.append(kind)
        order = {"metadata": {"name": "maintenance-1", "creationTimestamp": "2026-05-04T12:01:00Z"}}
        return [{**order, "spec": {"nodeName": "gpu-1"}}] if kind == "RebootNode" else []

    def get(self, api_version, kind, name, namespace):
        self.asked.append(name)
        return {"data": {"status": "CLOSED"}}


class FakeCluster:
    """The watch of a cluster, filled by hand."""

    def __init__(self, time, *pods):
        self.kube = FakeKube()
        self.cache = Cache((NODE, POD, EVENT), time, lambda kind, namespace: None)
        self.cache.put(NODE, "ADDED", node())
        for pod in pods:
            self.cache.put(POD, "ADDED", pod)


@pytest.fixture
def struck(live, time):
    """The live session's cluster, in which a scenario has let an Xid 79 happen at noon."""
    fault = {"kind": "xid", "xid_type": 79, "gpu_id": 3, "layers": "combined"}
    Step.objects.create(
        run=FaultRun.objects.filter(scenario_version__isnull=False).get(),
        index=0,
        kind="xid",
        target={"kind": "Node", "name": "gpu-1"},
        undo={"fault": fault},
        applied_at=NOON,
    )
    return Cluster.objects.get(pk=live.cluster_id)


def test_every_stage_stands_on_the_page_with_its_time_and_what_to_do(live):
    note = {"quarantineHealthEvent": "[]"}
    labels = {
        "k8saas.nvidia.com/cordon-timestamp": "2026-05-04T12-00-32Z",
        "dgxc.nvidia.com/nvsentinel-state": "draining",
    }
    text = draw(live, state_of(79, after=200, nodes=[node(annotations=note, labels=labels)]))
    for name in (
        "detected",
        "quarantined",
        "draining",
        "drained",
        "remediating",
        "remediated",
        "uncordoned",
        "recov",
    ):
        assert name in text
    assert "+0:32" in text
    assert "Stuck" in text
    assert "end the pods" in text
    assert 'aria-current="step"' in text


def test_an_xid_that_cordons_nothing_is_as_designed(live):
    event = {
        "metadata": {"name": "e", "creationTimestamp": "2026-05-04T12:00:20Z"},
        "involvedObject": {"kind": "Node", "name": "gpu-1"},
        "reason": "SysLogsXIDErrorIsNotHealthy",
        "message": "ErrorCode:43 PCI:0000:04:00",
    }
    text = draw(live, state_of(43, after=60, events=[event]))
    assert "As designed" in text
    assert "neither cordoned nor drained" in text
    assert ": not planned" in text


def test_without_nvsentinel_or_an_observer_there_is_no_panel_and_without_faults_it_says_so(live):
    assert " hidden" in draw(live, SentinelState(is_installed=False))
    assert " hidden" in panels.render(live, "sentinel", panels.INTERVIEWER, None)
    empty = draw(live, SentinelState(is_installed=True))
    assert " hidden" not in empty.partition(">")[0]
    assert "No Xid has been injected" in empty


def test_the_candidate_has_no_such_panel_and_quiet_time_hides_it(live, time):
    with pytest.raises(KeyError):
        panels.render(live, "sentinel", panels.CANDIDATE, None)
    live.quiet_until = NOON + timedelta(hours=1)
    assert "Not shown in quiet time" in draw(live, state_of(79))


def test_the_observer_asks_for_orders_only_where_nvsentinel_has_faults_to_find(live, time):
    absent, idle = FakeCluster(time), FakeCluster(time, MONITOR)
    cluster = Cluster.objects.get(pk=live.cluster_id)
    assert not SentinelWatch(absent, time).look(cluster)
    assert not SentinelWatch(idle, time).look(cluster)
    assert (absent.kube.asked, idle.kube.asked) == ([], [])


def test_the_observer_remembers_when_it_first_saw_a_stage(struck, time):
    cluster = FakeCluster(time, MONITOR)
    watch = SentinelWatch(cluster, time)
    time.advance(70)
    assert watch.look(struck)
    time.advance(50)
    (row,) = watch.state().rows
    found = {stage.name: stage for stage in row.stages}
    assert (row.fault.gpu, row.fault.xid) == (3, 79)
    assert found["remediating"].at == NOON + timedelta(seconds=60)
    assert found["drained"].at == NOON + timedelta(seconds=60)  # it is seen late, and cannot have come later
    assert row.verdict.text == "RebootNode maintenance-1 is being carried out."


def test_the_same_xid_again_is_known_as_a_repetition(struck):
    first = Step.objects.get(kind="xid")
    again = Step.objects.get(pk=first.pk)
    again.pk, again.index, again.applied_at = None, 1, NOON + timedelta(minutes=1)
    again.save()
    assert [fault.repeats for fault in xid_faults(struck)] == [True, False]
