"""One Xid on a practice cluster of its own, seen through every layer: what somebody types, and what it then says.

The cluster's clock is moved by hand, so that the same Xid always gives the same lines. The fault is begun as the
node's agent begins it.
"""

from __future__ import annotations

import asyncio
import json
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
Stages = tuple[tuple[Stage, float | None], ...]
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
STEP_S, SCRAPE_S, SENTINEL_S = 2, 16, 420
MAX_START_S = 900


@dataclass(frozen=True, slots=True)
class Spoken:
    """The words of a command: its status (None where it gave no answer), what it wrote, and how long it took."""

    command: str
    status: int | None
    text: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What one Xid looks like. ``changed``: of the node, before and after; ``stages``: each with its seconds."""

    xid: int
    log: tuple[str, ...]
    nvidia_smi: Spoken
    running: str
    new: Spoken
    prometheus: tuple[Obj, ...]
    changed: tuple[tuple[str, str, str], ...]
    stages: Stages
    verdict: Verdict
    offers: str


class Typed:
    """A command that was typed in a container; it runs while the clock moves."""

    def __init__(self, w: World, one: Obj, where: str, command: str) -> None:
        self._w, self._command = w, command
        self._out, self._err = Sink(), Sink()
        begun = w.kubelets.containers.exec(one, where, ("sh", "-c", command))
        self._began = self._ended = w.clock.now()
        self._task = asyncio.ensure_future(begun(Stdio(None, self._out, self._err)))
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Future[int]) -> None:
        self._ended = self._w.clock.now()

    async def answered(self) -> Spoken:
        """Return the answer of a command that waits for nothing."""
        while not self._task.done():
            await self._w.tick(0)
        return self.told()

    def told(self) -> Spoken:
        """Return the answer, if there is one by now."""
        text = (self._out.data + self._err.data).decode()
        if not self._task.done():
            self._task.cancel()
            return Spoken(self._command, None, text, 0.0)
        return Spoken(self._command, int(self._task.result()), text, (self._ended - self._began).total_seconds())


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
        for _ in range(MAX_START_S // STEP_S):
            await self.w.tick(STEP_S)
            if all([await self._runs("train"), await self._runs("desk")]):
                break
        await self.w.tick(60)

    async def _runs(self, name: str) -> bool:
        return (await self.w.pod(name))["status"].get("phase") == "Running"

    async def show(self, xid: int) -> Seen:
        """Let an Xid happen, and look at every layer. What waits for the device answers while NVSentinel works."""
        before, at = await self._node(), self.w.clock.now()
        log_before = await self._log()
        self._begin(xid, at)
        await self.w.tick(STEP_S)
        log, running, after = (await self._log())[len(log_before) :], self._running(), await self._node()
        nvidia_smi, new = await self.type_driver(NVIDIA_SMI), await self.type_train(NEW_PROCESS)
        found, stages, verdict = await self._follow(GpuFault(self.node, GPU, xid, at))
        changed = tuple((key, before.get(key, "-"), after[key]) for key in after if after[key] != before.get(key))
        offers = (await self._node())[ALLOCATABLE]
        told = nvidia_smi.told(), running, new.told()
        return Seen(xid, tuple(log), *told, found, changed, stages, verdict, offers)

    def _begin(self, xid: int, at: datetime) -> None:
        faults = self.w.kubelets.machines.faults(self.node)
        faults.lease(HOLDER, MAX_S)
        faults.begin(NAME, HOLDER, "xid", {"xid_type": xid, "gpu_id": GPU, "layers": "combined"}, MAX_S)

    async def _node(self) -> dict[str, str]:
        node = await self.w.client.get("nodes", self.node)
        conditions = {f"condition {row['type']}": str(row["status"]) for row in node["status"]["conditions"]}
        return {ALLOCATABLE: str(node["status"]["allocatable"]["nvidia.com/gpu"])} | conditions

    async def _log(self) -> list[str]:
        return (await (await self.type_driver("dmesg")).answered()).text.splitlines()

    def _running(self) -> str:
        """Return the last line of the training's own log that tells how it is."""
        lines = self.w.kubelets.logs("default", "train", "main").decode().splitlines()
        errors = [line for line in lines if "Error" in line]
        return errors[-1] if errors else next(line for line in reversed(lines) if "step" in line)

    async def type_train(self, command: str) -> Typed:
        """Type a command in the training's container."""
        return Typed(self.w, await self.w.pod("train"), "main", command)

    async def type_driver(self, command: str) -> Typed:
        """Type a command in the driver's pod on the node."""
        pods = await self.w.items("pods", "gpu-operator")
        driver = next(one for one in pods if self._is_driver(one))
        return Typed(self.w, driver, driver["spec"]["containers"][0]["name"], command)

    def _is_driver(self, one: Obj) -> bool:
        is_here = one["spec"].get("nodeName") == self.node
        return bool(is_here and one["metadata"]["name"].startswith("nvidia-driver-daemonset"))

    async def _series(self) -> tuple[Obj, ...]:
        typed = Typed(self.w, await self.w.pod("desk"), "main", PROMETHEUS)
        return tuple(_of_gpu((await typed.answered()).text, self.node))

    async def _follow(self, fault: GpuFault) -> tuple[tuple[Obj, ...], Stages, Verdict]:
        """Watch NVSentinel until it is through, or for long enough; read Prometheus after its next scrape."""
        seen: dict[str, datetime] = {}
        found: tuple[Obj, ...] = ()
        for second in range(0, SENTINEL_S, STEP_S):
            await self.w.tick(STEP_S)
            if second == SCRAPE_S:
                found = await self._series()
            watched, now = await self._watched(), self.w.clock.now()
            stages = find_stages(fault, watched, seen)
            for stage in stages:
                if str(stage.state) == "done":
                    seen.setdefault(stage.name, stage.at or now)
        times = {name: (at - fault.at).total_seconds() for name, at in seen.items()}
        return found, tuple((stage, times.get(stage.name)) for stage in stages), judge(fault, stages, watched, now)

    async def _watched(self) -> Watched:
        orders = [
            {"kind": kind, **order} for resource, kind in ORDERS.items() for order in await self.w.items(resource, "")
        ]
        read: Callable[[str], Any] = lambda kind: self.w.items(kind, "")  # noqa: E731 - of all namespaces
        return Watched(await read("nodes"), await read("pods"), await read("events"), orders)


ALLOCATABLE = "allocatable nvidia.com/gpu"


def _of_gpu(answer: str, node: str) -> Sequence[Obj]:
    rows = json.loads(answer)["data"]["result"]
    return [row for row in rows if row["metric"]["node"] == node and row["metric"]["gpu"] == str(GPU)]


async def show(xid: int) -> Seen:
    """Return what an Xid looks like on a cluster of its own."""
    async with world(count=3) as w:
        scene = FaultScene(w)
        await scene.build()
        return await scene.show(xid)
