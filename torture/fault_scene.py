"""One Xid on a practice cluster of its own, seen through every layer: what somebody types, and what it then says.

The cluster's clock is moved by hand, so that the same Xid always gives the same lines. The fault is begun as the
node's agent begins it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faults.nvsentinel import GpuFault, Stage, Verdict, Watched, find_stages, judge
from kubesim.shell.machine import Stdio
from kubesim.tests.containers import Sink
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import PYTORCH, trainer
from kubesim.tests.world import World, container, pod, world

Obj = dict[str, Any]
ADDONS = ("gpu-operator", "monitoring", "nvsentinel")
GPU = 0
NAME, HOLDER, MAX_S = "shown", "page", 3600
ORDERS = {"rebootnodes.janitor.dgxc.nvidia.com": "RebootNode", "gpuresets.janitor.dgxc.nvidia.com": "GPUReset"}
IMMEDIATE = 'evictionTimeoutInSeconds = 60\n[[userNamespaces]]\nname = "*"\nmode = "Immediate"\n'
"""Else the drain would wait for a training that does not end by itself."""
TRAINING = ("sh", "-c", "python /workspace/train.py; sleep 1000000")
NEW_PROCESS = "python -c 'import torch; print(torch.zeros(1, device=\"cuda\"))'"
NVIDIA_SMI = "nvidia-smi -i 0 --query-gpu=index,name,ecc.errors.uncorrected.volatile.total --format=csv"
PROMETHEUS = "curl -s 'http://prometheus.monitoring:9090/api/v1/query?query=DCGM_FI_DEV_XID_ERRORS'"
EXPORTER = "curl -s http://nvidia-dcgm-exporter.gpu-operator:9400/metrics | grep '^DCGM_FI_DEV_XID_ERRORS{gpu=\"0\"'"
STEP_S, SCRAPE_S, PATIENCE_S, SENTINEL_S = 2, 15, 60, 420


@dataclass(frozen=True, slots=True)
class Spoken:
    """The words of a command: its status (None where it gave no answer), and what it wrote."""

    command: str
    status: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What one Xid looks like. ``changed``: of the node, before and after; ``stages``: each with its seconds."""

    xid: int
    log: tuple[str, ...]
    nvidia_smi: Spoken
    running: str
    new: Spoken
    exporter: Spoken
    prometheus: tuple[Obj, ...]
    changed: tuple[tuple[str, str, str], ...]
    stages: tuple[tuple[Stage, float | None], ...]
    verdict: Verdict
    healed: bool


class FaultScene:
    """A cluster of three nodes, with a training on the first GPU of the first one."""

    def __init__(self, w: World) -> None:
        self.w = w
        self.node = w.node_names[0]

    async def build(self) -> None:
        """Let everything run that shows a fault."""
        await install(self.w, *ADDONS)
        drainer = {"data": {"config.toml": IMMEDIATE}}
        await self.w.client.patch("configmaps", "node-drainer", "nvsentinel", drainer)
        await self.w.create("pods", pod("train", trainer(1, command=TRAINING), nodeName=self.node))
        desk = pod("desk", container(PYTORCH, "sleep", "1000000"), nodeName=self.w.node_names[1])
        await self.w.create("pods", desk)
        await self.w.tick(120)

    async def show(self, xid: int) -> Seen:
        """Let an Xid happen, and look at every layer."""
        before, at = await self._node(), self.w.clock.now()
        log_before = await self._log()
        self._begin(xid, at)
        await self.w.tick(STEP_S)
        log = tuple((await self._log())[len(log_before) :])
        nvidia_smi = await self.ask_driver(NVIDIA_SMI)
        running, after = self._running(), await self._node()
        new = await self.ask_train(NEW_PROCESS)
        await self.w.tick(SCRAPE_S)
        exporter, found = await self.ask_desk(EXPORTER), await self._series()
        stages, verdict = await self._follow(GpuFault(self.node, GPU, xid, at))
        changed = tuple((key, before.get(key, "-"), after[key]) for key in after if after[key] != before.get(key))
        healed = (await self._node())[ALLOCATABLE] == before[ALLOCATABLE]
        return Seen(xid, log, nvidia_smi, running, new, exporter, found, changed, stages, verdict, healed)

    def _begin(self, xid: int, at: datetime) -> None:
        faults = self.w.kubelets.machines.faults(self.node)
        faults.lease(HOLDER, MAX_S)
        faults.begin(NAME, HOLDER, "xid", {"xid_type": xid, "gpu_id": GPU, "layers": "combined"}, MAX_S)

    async def _node(self) -> dict[str, str]:
        node = await self.w.client.get("nodes", self.node)
        conditions = {f"condition {row['type']}": str(row["status"]) for row in node["status"]["conditions"]}
        return {ALLOCATABLE: str(node["status"]["allocatable"]["nvidia.com/gpu"])} | conditions

    async def _log(self) -> list[str]:
        return (await self.ask_driver("dmesg")).text.splitlines()

    def _running(self) -> str:
        """Return the last line of the training's own log that tells how it is."""
        lines = self.w.kubelets.logs("default", "train", "main").decode().splitlines()
        errors = [line for line in lines if "Error" in line]
        return errors[-1] if errors else next(line for line in reversed(lines) if "step" in line)

    async def ask_train(self, command: str) -> Spoken:
        """Type a command in the training's container."""
        return await self._ask(await self.w.pod("train"), "main", command)

    async def ask_desk(self, command: str) -> Spoken:
        """Type a command in a pod on another node."""
        return await self._ask(await self.w.pod("desk"), "main", command)

    async def ask_driver(self, command: str) -> Spoken:
        """Type a command in the driver's pod on the node."""
        pods = await self.w.items("pods", "gpu-operator")
        driver = next(one for one in pods if self._is_driver(one))
        return await self._ask(driver, driver["spec"]["containers"][0]["name"], command)

    def _is_driver(self, one: Obj) -> bool:
        is_here = one["spec"].get("nodeName") == self.node
        return bool(is_here and one["metadata"]["name"].startswith("nvidia-driver-daemonset"))

    async def _ask(self, one: Obj, where: str, command: str) -> Spoken:
        """Run a command while time passes: what waits for a device answers late, or never."""
        out, err = Sink(), Sink()
        begun = self.w.kubelets.containers.exec(one, where, ("sh", "-c", command))
        task = asyncio.ensure_future(begun(Stdio(None, out, err)))
        for _ in range(0, PATIENCE_S, STEP_S):
            await self.w.tick(0)
            if task.done():
                break
            await self.w.tick(STEP_S)
        text = (out.data + err.data).decode()
        if not task.done():
            task.cancel()
            return Spoken(command, None, text)
        return Spoken(command, int(task.result()), text)

    async def _series(self) -> tuple[Obj, ...]:
        answer = await self.ask_desk(PROMETHEUS)
        return tuple(_of_gpu(answer.text, self.node))

    async def _follow(self, fault: GpuFault) -> tuple[tuple[tuple[Stage, float | None], ...], Verdict]:
        """Watch NVSentinel until it is through, or for long enough."""
        seen: dict[str, datetime] = {}
        for _ in range(0, SENTINEL_S, STEP_S):
            await self.w.tick(STEP_S)
            watched, now = await self._watched(), self.w.clock.now()
            stages = find_stages(fault, watched, seen)
            for stage in stages:
                if str(stage.state) == "done":
                    seen.setdefault(stage.name, stage.at or now)
        times = {name: (at - fault.at).total_seconds() for name, at in seen.items()}
        return tuple((stage, times.get(stage.name)) for stage in stages), judge(fault, stages, watched, now)

    async def _watched(self) -> Watched:
        orders = [
            {"kind": kind, **order} for resource, kind in ORDERS.items() for order in await self.w.items(resource, "")
        ]
        read: Callable[[str], Any] = lambda kind: self.w.items(kind, "")  # noqa: E731 - of all namespaces
        return Watched(await read("nodes"), await read("pods"), await read("events"), orders)


ALLOCATABLE = "allocatable nvidia.com/gpu"


def _of_gpu(answer: str, node: str) -> Sequence[Obj]:
    import json

    rows = json.loads(answer)["data"]["result"]
    return [row for row in rows if row["metric"]["node"] == node and row["metric"]["gpu"] == str(GPU)]


async def show(xid: int) -> Seen:
    """Return what an Xid looks like on a cluster of its own."""
    async with world(count=3) as w:
        scene = FaultScene(w)
        await scene.build()
        return await scene.show(xid)
