"""NVSentinel: from a line of the kernel log to a node that is cordoned, emptied, repaired and back in service."""

from __future__ import annotations

import pytest

from kubesim.tests.containers import run
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import container, pod, world

STATE = "dgxc.nvidia.com/nvsentinel-state"
REBOOTS, RESETS = "rebootnodes.janitor.dgxc.nvidia.com", "gpuresets.janitor.dgxc.nvidia.com"
IMMEDIATE = 'evictionTimeoutInSeconds = 60\n[[userNamespaces]]\nname = "*"\nmode = "Immediate"\n'


@pytest.fixture
async def guarded():
    """Three nodes, watched over."""
    async with world(count=3) as w:
        await install(w, "nvsentinel")
        yield w


def strike(w, code, gpu=0, node=0):
    w.kubelets.gpus(w.node_names[node]).board.xid(gpu, code, w.clock.now())


async def node(w, number=0):
    return await w.client.get("nodes", w.node_names[number])


async def labels(w, number=0):
    return (await node(w, number))["metadata"]["labels"]


async def condition(w, number=0):
    return next(c for c in (await node(w, number))["status"]["conditions"] if c["type"] == "SysLogsXIDError")


async def mode(w, text):
    await w.client.patch("configmaps", "node-drainer", "nvsentinel", {"data": {"config.toml": text}})


async def test_a_healthy_node_says_so(guarded):
    found = await condition(guarded)
    assert (found["status"], found["reason"]) == ("False", "SysLogsXIDErrorIsHealthy")
    assert found["message"] == "No Health Failures"
    await guarded.check_models()


async def test_a_lost_gpu_is_told_on_the_node_in_nvsentinels_words(guarded):
    strike(guarded, 79)
    await guarded.tick(35)
    device = guarded.kubelets.gpus(guarded.node_names[0]).board.devices[0]
    found = await condition(guarded)
    assert (found["status"], found["reason"]) == ("True", "SysLogsXIDErrorIsNotHealthy")
    assert found["message"] == (
        f"ErrorCode:79 PCI:0000:04:00 GPU_UUID:{device.uuid} NVRM: Xid (PCI:0000:04:00): 79, "
        "GPU has fallen off the bus. Recommended Action=RESTART_BM;"
    )


async def test_the_monitor_logs_what_it_finds(guarded):
    strike(guarded, 79)
    await guarded.tick(35)
    names = [p["metadata"]["name"] for p in await guarded.items("pods", "nvsentinel")]
    logs = [guarded.kubelets.logs("nvsentinel", n, n.rpartition("-")[0]) for n in names if n.startswith("syslog")]
    assert any(b"XID error detected" in text for text in logs)


@pytest.mark.parametrize("code", [13, 31, 43, 94])
async def test_what_needs_only_a_new_start_is_an_event_and_no_cordon(guarded, code):
    strike(guarded, code)
    await guarded.tick(60)
    assert (await condition(guarded))["status"] == "False"
    assert not (await node(guarded))["spec"].get("unschedulable")
    (message, *_) = await guarded.messages("SysLogsXIDErrorIsNotHealthy")
    assert message.startswith(f"ErrorCode:{code} ")
    assert message.endswith("Recommended Action=NONE;")


async def test_a_cordoned_node_says_who_did_it_and_why(guarded):
    await guarded.create("pods", pod("train", trainer(1), nodeName=guarded.node_names[0]))
    strike(guarded, 79, gpu=5)
    await guarded.tick(35)
    found = await node(guarded)
    assert found["spec"]["unschedulable"]
    marks = found["metadata"]["labels"]
    assert marks["k8saas.nvidia.com/cordon-by"] == "NVSentinel"
    assert marks["k8saas.nvidia.com/cordon-reason"] == "Syslog-fatal-error-ruleset"
    assert found["metadata"]["annotations"]["quarantineHealthEventIsCordoned"] == "True"
    assert marks[STATE] == "draining"


async def test_a_node_is_drained_only_when_its_pods_are_through(guarded):
    await guarded.create("pods", pod("train", trainer(1), nodeName=guarded.node_names[0]))
    strike(guarded, 79, gpu=5)
    await guarded.tick(300)
    assert (await labels(guarded))[STATE] == "draining"
    assert "Waiting for following pods to finish: [default/train]" in await guarded.messages("AwaitingPodCompletion")
    await guarded.client.delete("pods", "train", "default", grace_seconds=0)
    await guarded.tick(15)
    assert (await labels(guarded))[STATE] == "remediating"


async def test_an_emptied_node_is_rebooted_and_returned(guarded):
    strike(guarded, 79)
    await guarded.tick(60)
    (order,) = await guarded.items(REBOOTS, "")
    assert order["metadata"]["name"].startswith(f"maintenance-{guarded.node_names[0]}-")
    await guarded.tick(200)
    found = await node(guarded)
    assert not found["spec"].get("unschedulable")
    assert STATE not in found["metadata"]["labels"]
    assert found["metadata"]["labels"]["k8saas.nvidia.com/uncordon-by"] == "NVSentinel"
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert (await condition(guarded))["status"] == "False"


async def test_a_janitor_that_begins_anew_waits_for_the_nodes_boot(guarded):
    strike(guarded, 79)
    await guarded.tick(60)
    (janitor,) = [p for p in await guarded.items("pods", "nvsentinel") if p["metadata"]["name"].startswith("janitor")]
    await guarded.client.delete("pods", janitor["metadata"]["name"], "nvsentinel", grace_seconds=0)
    await guarded.tick(20)
    (order,) = await guarded.items(REBOOTS, "")
    assert "completionTime" not in order["status"]
    await guarded.tick(180)
    (order,) = await guarded.items(REBOOTS, "")
    found = next(c for c in (await node(guarded))["status"]["conditions"] if c["type"] == "Ready")
    assert order["status"]["completionTime"] >= found["lastTransitionTime"]


async def test_a_reset_heals_what_needs_no_reboot(guarded):
    strike(guarded, 95, gpu=3)
    await guarded.tick(60)
    (order,) = await guarded.items(RESETS, "")
    assert order["spec"]["selector"]["uuids"] == [guarded.kubelets.gpus(guarded.node_names[0]).board.devices[3].uuid]
    await guarded.tick(90)
    assert not (await node(guarded))["spec"].get("unschedulable")
    assert (await node(guarded))["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert await guarded.items(REBOOTS, "") == []


async def test_an_nvlink_error_waits_for_people(guarded):
    strike(guarded, 74)
    await guarded.tick(120)
    assert (await labels(guarded))[STATE] == "remediation-failed"
    assert (await node(guarded))["spec"]["unschedulable"]
    assert await guarded.items(REBOOTS, "") == []


async def test_pods_are_evicted_where_the_mode_is_immediate(guarded):
    await mode(guarded, IMMEDIATE)
    await guarded.create("pods", pod("train", trainer(1), nodeName=guarded.node_names[0]))
    await guarded.tick(30)
    strike(guarded, 79, gpu=5)
    await guarded.tick(60)
    assert not await guarded.items("pods")


async def test_a_node_that_somebody_uncordons_is_left_alone(guarded):
    await guarded.create("pods", pod("train", trainer(1), nodeName=guarded.node_names[0]))
    strike(guarded, 79, gpu=5)
    await guarded.tick(35)
    await guarded.client.patch("nodes", guarded.node_names[0], "", {"spec": {"unschedulable": None}})
    await guarded.tick(60)
    found = await node(guarded)
    assert not found["spec"].get("unschedulable")
    assert found["metadata"]["annotations"]["quarantinedNodeUncordonedManually"] == "True"


async def test_a_node_that_opts_out_is_never_cordoned(guarded):
    out = {"metadata": {"labels": {"k8saas.nvidia.com/ManagedByNVSentinel": "false"}}}
    await guarded.client.patch("nodes", guarded.node_names[0], "", out)
    strike(guarded, 79)
    await guarded.tick(60)
    assert not (await node(guarded))["spec"].get("unschedulable")


async def test_a_node_that_was_cordoned_before_stays_so(guarded):
    await guarded.client.patch("nodes", guarded.node_names[0], "", {"spec": {"unschedulable": True}})
    strike(guarded, 95, gpu=3)
    await guarded.tick(150)
    found = await node(guarded)
    assert found["spec"]["unschedulable"]
    assert STATE not in found["metadata"]["labels"]


async def test_the_breaker_stops_everything_when_half_of_the_nodes_are_cordoned(guarded):
    for number in range(3):
        await guarded.create("pods", pod(f"train-{number}", trainer(1), nodeName=guarded.node_names[number]))
        strike(guarded, 79, gpu=7, node=number)
    await guarded.tick(60)
    cordoned = [bool((await node(guarded, number))["spec"].get("unschedulable")) for number in range(3)]
    assert sum(cordoned) == 2
    breaker = await guarded.client.get("configmaps", "circuit-breaker", "nvsentinel")
    assert breaker["data"] == {"status": "TRIPPED"}
    await guarded.tick(400)
    await guarded.client.patch("configmaps", "circuit-breaker", "nvsentinel", {"data": {"status": "CLOSED"}})
    last = guarded.node_names[cordoned.index(False)]
    await guarded.client.patch("nodes", last, "", {"metadata": {"labels": {"touched": "1"}}})
    await guarded.tick(5)
    assert (await guarded.client.get("nodes", last))["spec"]["unschedulable"]


async def test_without_its_module_nothing_follows_from_a_condition(guarded):
    none = {"spec": {"replicas": 0}}
    await guarded.client.patch("deployments.apps", "fault-quarantine", "nvsentinel", none)
    await guarded.tick(40)
    strike(guarded, 79)
    await guarded.tick(60)
    assert (await condition(guarded))["status"] == "True"
    assert not (await node(guarded))["spec"].get("unschedulable")


async def test_a_line_that_a_privileged_pod_writes_is_found_too(guarded):
    agent = container("debian:12", "sleep", "inf", securityContext={"privileged": True})
    await guarded.create("pods", pod("agent", agent, nodeName=guarded.node_names[0]))
    await guarded.tick(5)
    line = "NVRM: NVRM: Xid (PCI:0000:04:00.0): 79, GPU has fallen off the bus"
    await run(guarded, "agent", "sh", "-c", f"echo '<3>{line}' > /dev/kmsg")
    await guarded.tick(35)
    assert (await condition(guarded))["status"] == "True"
