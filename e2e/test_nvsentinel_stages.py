"""Stages and verdicts of NVSentinel, read from the objects of kubesim's own, whose modules really act."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest

from faults.nvsentinel import GpuFault, Outlook, Watched, find_stages, judge
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import pod, world

REBOOTS, RESETS = "rebootnodes.janitor.dgxc.nvidia.com", "gpuresets.janitor.dgxc.nvidia.com"
IMMEDIATE = 'evictionTimeoutInSeconds = 60\n[[userNamespaces]]\nname = "*"\nmode = "Immediate"\n'


class Guarded:
    """Three nodes under NVSentinel, and what an observer has seen of a fault."""

    def __init__(self, w):
        self.w = w
        self.seen = {}

    def strike(self, xid, gpu=0, node=0, layers="combined", repeats=False):
        """Let an Xid happen; from then on it is the one that is looked at."""
        name, at = self.w.node_names[node], self.w.clock.now()
        self.w.kubelets.gpus(name).board.xid(gpu, xid, at, layers)
        self.fault, self.seen = GpuFault(name, gpu, xid, at, layers, repeats=repeats), {}

    async def watched(self):
        orders = [
            {"kind": kind, **order}
            for resource, kind in ((REBOOTS, "RebootNode"), (RESETS, "GPUReset"))
            for order in await self.w.items(resource, "")
        ]
        breaker = [one for one in await self.w.items("configmaps", "nvsentinel") if "status" in one.get("data", {})]
        return Watched(
            await self.w.items("nodes", ""),
            await self.w.items("pods", ""),
            await self.w.items("events", ""),
            orders,
            any(one["data"]["status"] == "TRIPPED" for one in breaker),
        )

    async def look(self):
        """Return the stages by name, and the verdict."""
        watched, now = await self.watched(), self.w.clock.now()
        stages = find_stages(self.fault, watched, self.seen)
        for stage in stages:
            if stage.state == "done":
                self.seen.setdefault(stage.name, stage.at or now)
        return {stage.name: stage for stage in stages}, judge(self.fault, stages, watched, now)

    async def follow(self, seconds, step=2):
        """Look again and again for so long; return what was seen last."""
        for _ in range(0, seconds, step):
            await self.w.tick(step)
            found = await self.look()
        return found

    async def load(self, name="train"):
        """Let a pod use a GPU of the first node."""
        await self.w.create("pods", pod(name, trainer(1), nodeName=self.w.node_names[0]))

    async def configure(self, name, text):
        await self.w.client.patch("configmaps", name, "nvsentinel", {"data": {"config.toml": text}})


@pytest.fixture
async def guarded():
    async with world(count=3) as w:
        await install(w, "nvsentinel")
        yield Guarded(w)


def states(stages):
    return {name: str(stage.state) for name, stage in stages.items()}


async def test_a_lost_gpu_goes_through_every_stage_to_recovery_in_order_of_time(guarded):
    await guarded.configure("node-drainer", IMMEDIATE)
    await guarded.load()
    await guarded.w.tick(30)
    guarded.strike(79, gpu=5)
    stages, verdict = await guarded.look()
    assert set(states(stages).values()) == {"now", "waiting"}
    assert (verdict.outlook, verdict.text) == (
        Outlook.UNDER_WAY,
        "Not detected yet: the monitor reads the log every 30 s.",
    )
    stages, verdict = await guarded.follow(300)
    assert set(states(stages).values()) == {"done"}
    times = [stage.at for stage in stages.values()]
    assert all(times)
    assert times == sorted(times)
    assert (verdict.outlook, verdict.advice) == (Outlook.OVER, "")


async def test_what_needs_no_cordon_is_as_designed_whatever_another_xid_does_to_the_node(guarded):
    guarded.strike(43, node=1)
    alone = guarded.fault
    guarded.strike(95, gpu=1)
    guarded.strike(94)
    for fault in (alone, guarded.fault):
        guarded.fault, guarded.seen = fault, {}
        stages, verdict = await guarded.follow(60, step=10)
        assert states(stages)["detected"] == "done"
        assert set(states(stages).values()) == {"done", "not planned"}
        assert verdict.outlook == Outlook.AS_DESIGNED
        assert "neither cordoned nor drained" in verdict.text


async def test_a_drain_that_waits_for_pods_is_stuck_and_says_for_which(guarded):
    await guarded.load()
    guarded.strike(79, gpu=5)
    stages, verdict = await guarded.follow(60)
    assert (states(stages)["draining"], states(stages)["drained"]) == ("done", "now")
    assert verdict.outlook == Outlook.UNDER_WAY
    stages, verdict = await guarded.follow(120, step=20)
    assert verdict.outlook == Outlook.STUCK
    assert "[default/train]" in verdict.text
    assert verdict.command.startswith(f"kubectl drain {guarded.fault.node}")


async def test_an_nvlink_error_is_left_to_people_as_designed(guarded):
    guarded.strike(74)
    stages, verdict = await guarded.follow(120, step=10)
    assert states(stages)["remediated"] == "failed"
    assert verdict.outlook == Outlook.AS_DESIGNED
    assert "no automatic repair for Xid 74" in verdict.text


async def test_the_breaker_stops_everything_and_says_how_to_reset_it(guarded):
    for node in (0, 1):
        guarded.strike(79, node=node)
    await guarded.follow(40)
    guarded.strike(79, node=2)
    stages, verdict = await guarded.follow(60, step=10)
    assert "quarantined" not in [name for name, state in states(stages).items() if state == "done"]
    assert verdict.outlook == Outlook.STUCK
    assert "circuit breaker" in verdict.text
    assert "CLOSED" in verdict.command


async def test_the_same_line_again_is_suppressed_as_a_duplicate(guarded):
    guarded.strike(63)
    await guarded.follow(40, step=10)
    await guarded.w.tick(30)
    guarded.strike(63, repeats=True)
    fresh, verdict = await guarded.follow(90, step=10)
    if states(fresh)["detected"] == "done":
        pytest.fail("the line was another one")
    assert verdict.outlook == Outlook.STUCK
    assert "duplicate" in verdict.text


async def test_somebody_who_uncordons_by_hand_stops_it(guarded):
    await guarded.load()
    guarded.strike(79, gpu=5)
    await guarded.follow(40, step=10)
    await guarded.w.client.patch("nodes", guarded.fault.node, "", {"spec": {"unschedulable": None}})
    guarded.seen = {}
    _, verdict = await guarded.follow(20, step=10)
    assert verdict.outlook == Outlook.STUCK
    assert "uncordoned the node by hand" in verdict.text


async def test_a_fault_of_cuda_alone_is_not_seen_by_design(guarded):
    guarded.strike(79, layers="cuda")
    stages, verdict = await guarded.follow(70, step=10)
    assert states(stages)["detected"] == "now"
    assert (verdict.outlook, "does not show" in verdict.text) == (Outlook.AS_DESIGNED, True)


async def test_without_nvsentinel_or_its_monitor_or_with_the_node_opted_out_it_says_so(guarded):
    guarded.strike(79)
    watched, now = await guarded.watched(), guarded.w.clock.now()

    def verdict(later=0.0, **changed):
        found = Watched(**{**{name: getattr(watched, name) for name in ("nodes", "pods", "events")}, **changed})
        at = now + timedelta(seconds=later)
        return judge(guarded.fault, find_stages(guarded.fault, found), found, at)

    assert verdict(pods=[]).outlook == Outlook.ABSENT
    left = [one for one in watched.pods if "syslog" not in one["metadata"]["name"]]
    assert "No syslog-health-monitor runs" in verdict(later=90, pods=left).text
    assert "though the monitor runs" in verdict(later=90).text
    assert verdict(nodes=[]).text == "The node has gone."
    nodes = copy.deepcopy(watched.nodes)
    for node in nodes:
        node["metadata"]["labels"]["k8saas.nvidia.com/ManagedByNVSentinel"] = "false"
    assert "opted out" in verdict(nodes=nodes).text
