"""The device plugin's part of a kubelet: which containers have which GPUs, and what their processes do to them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

from kubesim import data
from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.gpu.access import Access
from kubesim.gpu.board import GPU, SHORT, Board
from kubesim.gpu.cuda import CudaDevice
from kubesim.gpu.demand import USED_SHARE, wanted_mib
from kubesim.gpu.devices import Device, Task
from kubesim.gpu.nodes import shared_clients
from kubesim.gpu.products import Load, Product, loads, products
from kubesim.kubelet.failures import Library
from kubesim.kubelet.programs import Program
from kubesim.kubelet.torchrun import Numbers
from kubesim.times import micro, parse

_texts: data.Reader[dict[str, str]] = data.beside(__file__, "gpus.yaml")
UPTIME = timedelta(days=9, hours=5, minutes=41)
UPTIME_SPREAD_S = 14 * 86400
"""The shortest uptime of a machine of whose boot nothing is known; each has another."""
RUNTIME_CLASSES = ("nvidia", "nvidia-cdi", "nvidia-legacy")
"""The classes of the operator that lead to the toolkit's own runtime."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
ON_CPU = "training-cpu"
"""What does the work of training without its devices."""
MIN_WORK_MIB, FITTING_SHARE = 3072, 0.92
"""The least memory with which known work gets on; how much of what is free it takes where others hold the rest."""
LATEST = datetime.max.replace(tzinfo=UTC)
"""Seconds until every process holds all that it ever will."""
GONE_S = 300.0
"""How long a kubelet waits for a device plugin that has gone before the resource itself goes."""


@dataclass(frozen=True, slots=True)
class User:
    """A process that uses GPUs, by its number on the node. ``device``: the one that it uses; None: all there are."""

    pid: int
    name: str
    device: int | None = None


@dataclass
class NodeGpus:
    """The devices of one node; the board is made when it is first wanted."""

    node: str
    label: str = ""
    count: int = 0
    booted: datetime | None = None
    """The moment of the machine's boot, for a board that is not made yet."""
    seed: str = ""
    """Decides on the identity of the devices."""
    clients: int = 1
    """How many containers may have the same device."""
    plugins: dict[str, Callable[[str], None]] = field(default_factory=dict)
    """The containers whose device plugin speaks for the devices now; each is called with what it logs."""
    numbers: Numbers = field(default_factory=Numbers)
    """Those of the pods' processes on the node."""
    stopped_at: datetime | None = None
    """When the last of them went; None where one is there, or never was: then nobody's pod manages the devices."""
    changed: Callable[[], None] = lambda: None
    """Called when the node has other resources than before."""
    noted: Callable[[], None] = lambda: None
    """Called when ``dump`` tells something else than before."""

    @cached_property
    def board(self) -> Board:
        """The devices, their log and who has which."""
        known: Product = next((p for p in products().values() if p.label == self.label), products()["H100"])
        assert self.booted is not None
        board = Board(self.node, known, self.count, self.booted, replicas=self.clients, seed=self.seed)
        board.changed = lambda: self.changed()
        board.noted = lambda: self.noted()
        board.struck = self._struck
        return board

    def resources(self, now: datetime) -> dict[str, tuple[int, int]]:
        """Return what the node has of each resource, and how much of it is well; nothing where nobody has looked."""
        if "board" not in self.__dict__:
            return {}
        healthy, gone = self.board.healthy(), self.gone_for(now)
        return {
            resource: (0 if gone > GONE_S else count, 0 if gone else healthy[resource])
            for resource, count in self.board.resources().items()
        }

    def gone_for(self, now: datetime) -> float:
        """Return for how many seconds the device plugin has been gone; 0 while it is there."""
        return max((now - self.stopped_at).total_seconds(), 0.001) if self.stopped_at is not None else 0.0

    def plugin_starts(self, owner: str, say: Callable[[str], None], *, resumed: bool = False) -> None:
        """Let a container's device plugin speak for the devices from now on; a ``resumed`` one has looked before."""
        if self.count:
            self.plugins[owner] = say
            self.stopped_at, self.board.managed, self.board.registered = None, False, True
            if not resumed:
                self.board.look_again()

    def plugin_ends(self, owner: str, at: datetime) -> None:
        """The container's device plugin is gone: no device can be given until there is another one."""
        if owner in self.plugins:
            del self.plugins[owner]
            self.stopped_at, self.board.registered = None if self.plugins else at, bool(self.plugins)
            self.changed()

    def reboot(self, at: datetime) -> None:
        """Boot the node: its devices are as new, its log is empty."""
        if self.count:
            self.board.reboot(at)

    @property
    def nvml_error(self) -> str:
        """Why the driver's library cannot be used, in its word; empty where it can."""
        if "board" not in self.__dict__:
            return ""
        if not self.board.loaded:
            return "ERROR_DRIVER_NOT_LOADED"
        return "ERROR_LIB_RM_VERSION_MISMATCH" if self.board.mismatched else ""

    def dump(self) -> Obj:
        """Return what ``restore`` takes."""
        stopped = micro(self.stopped_at) if self.stopped_at else None
        return {"booted": micro(self.board.booted), "count": self.count, "stopped": stopped, **self.board.dump()}

    def restore(self, saved: Obj) -> None:
        """Be as ``dump`` has told, after a journey through JSON."""
        self.count, self.booted = saved["count"], parse(saved["booted"]) if "booted" in saved else self.booted
        self.stopped_at = parse(saved["stopped"]) if saved["stopped"] else None
        self.board.restore(saved)

    def keep(self, pods: Iterable[Obj], at: datetime) -> None:
        """Take devices back that were given, before a restart, to pods which are on the node no longer."""
        if not self.given:
            return
        here = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            for pod in pods
            if pod["spec"].get("nodeName") == self.node
        }
        for owner in [owner for owner in self.given if owner.rpartition("/")[0] not in here]:
            self.board.release(owner, at)

    def refusal(self, pod: Obj) -> str:
        """Return why a pod that has come to the node cannot be given its devices; empty where it can."""
        for resource, count in _wanted(pod).items():
            if "board" not in self.__dict__:
                return ""
            known = self.board.resources().get(resource)
            if self.stopped_at is not None or (known and not self.board.healthy()[resource]):
                return _texts()["no_healthy"].format(resource)
            if known is not None and (free := self.board.free(resource)) < count:
                return SHORT.format(resource, count, free)
        return ""

    def start_error(self, owner: str, number: str) -> str:
        """Return what the runtime says where it cannot give a container its devices; empty where it can."""
        if owner not in self.given:
            return ""
        if not self.board.toolkit:
            return _texts()["no_toolkit"].format(id=number)
        if not self.board.loaded:
            return _texts()["not_loaded"]
        if self.board.mismatched:
            return _texts()["mismatched"]
        return _texts()["lost"] if any(device.trouble.lost for device in self.board.visible(owner)) else ""

    def allocate(self, owner: str, spec: Obj, now: datetime) -> dict[str, str]:
        """Give a container what its limits ask for and return the variables that come with it. Raises NoDevice.

        A resource that no plugin of the node has ever spoken for is passed over: who binds a pod to such a node past
        the scheduler gets a container without devices (removeMissingExtendedResources and isDevicePluginResource).
        """
        limits = (spec.get("resources") or {}).get("limits") or {}
        for resource, amount in limits.items():
            if resource == GPU and resource in self.board.resources():
                count = int(quantity.parse(str(amount)))
                if count:
                    self.board.allocate(owner, resource, count, now)
                    return self.board.environment(owner)
        return {}

    def start(
        self,
        owner: str,
        program: Program,
        users: Sequence[User],
        at: datetime,
        die: Callable[[int], None],
        devices: Sequence[CudaDevice],
    ) -> list[int]:
        """Let processes of a container use the devices that it sees, if they are such as do; return their numbers."""
        load = loads().get(program.load) or (loads()["small"] if users and "python" in users[0].name else None)
        if load is None or program.load == ON_CPU or not devices:
            return []
        for user in users:
            self.board.clients[user.pid] = die
            for seen in devices if user.device is None else devices[user.device : user.device + 1]:
                task = Task(user.pid, user.name, owner, load, at)
                seen.device.start(replace(task, load=_fitting(load, seen.device, task, alone=len(devices) == 1)))
        return [user.pid for user in users]

    def _tasks(self, owner: str) -> Iterator[tuple[Device, Task]]:
        """Yield the processes of a container that use devices."""
        for device in self.board.devices if "board" in self.__dict__ else ():
            for task in [task for task in device.tasks.values() if task.owner == owner]:
                yield device, task

    def turn(self, owner: str, load: str, at: datetime) -> None:
        """Let the processes of a container do something else to their devices from now on."""
        found = [*self._tasks(owner)]
        alone = len({device.index for device, _ in found}) == 1
        for device, task in found:
            device.turn(task.pid, _fitting(loads()[load], device, task, alone=alone), at)

    def stop(self, pids: Iterable[int], at: datetime) -> None:
        """Processes are gone."""
        for pid in pids:
            self.board.clients.pop(pid, None)
            for device in self.board.devices:
                if pid in device.tasks:
                    device.end(pid, at)

    def end(self, owner: str, at: datetime) -> None:
        """The container's processes are gone."""
        for device, task in self._tasks(owner):
            self.board.clients.pop(task.pid, None)
            device.end(task.pid, at)

    def shortage(
        self,
        program: Program,
        libraries: Library,
        argv: Sequence[str],
        env: Mapping[str, str],
        devices: Sequence[CudaDevice],
        users: Sequence[User],
    ) -> str:
        """Return what a program prints whose ``users`` want more of its first GPU than there is; empty: it fits."""
        if program.load not in loads() or not devices:
            return ""
        wanted = wanted_mib(argv, env, len(devices), training=program.load != "inference") or MIN_WORK_MIB
        first, own = devices[0], {user.pid for user in users}
        total, tasks = first.total >> 20, [task for task in first.tasks(LATEST) if task.pid not in own]
        others = [(task.pid, first.device.held(task, LATEST)) for task in tasks]
        free = total - sum(size for _, size in others)
        if libraries.image.behaviour == "inference" and total * USED_SHARE > free and others:
            return libraries.crowded(total, max(free, 0), USED_SHARE)
        pid = users[0].pid
        return libraries.memory(total, others, pid, f"{self.node}/{pid}") if wanted > free else ""

    def release(self, owner: str, at: datetime) -> None:
        """Take back what a container had."""
        if owner in self.given:
            self.end(owner, at)
            self.board.release(owner, at)

    def access(self, owner: str, *, privileged: bool) -> Access:
        """Return what a program may see that is in no container."""
        return Access(self.board, owner, privileged, "all" if privileged else "")

    def access_of(self, owner: str, pod: Obj, spec: Obj, variables: Mapping[str, str]) -> Access:
        """Return what a container of a pod may see; ``variables`` are its image's.

        Since GPU Operator 25.10 containerd injects what the device plugin names (CDI), and NVIDIA_VISIBLE_DEVICES
        counts only for the runtime class of the toolkit ("Container Device Interface (CDI) support", NVIDIA's
        documentation), which believes it of unprivileged containers too, unless configured otherwise.
        """
        context = {**(pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}
        privileged = bool(context.get("privileged"))
        named = {item["name"]: item.get("value", "") for item in spec.get("env") or ()}
        asked = {**variables, **named}.get("NVIDIA_VISIBLE_DEVICES", "")
        runs = privileged or pod["spec"].get("runtimeClassName") in RUNTIME_CLASSES
        return Access(self.board, owner, privileged, asked if runs and asked not in ("void", "none") else "")

    @property
    def given(self) -> dict[str, object]:
        """The owners; nobody where the board was never wanted."""
        return dict(self.board.given) if "board" in self.__dict__ else {}

    def _struck(self, device: Device, code: int, marked: bool) -> None:
        """Let the device plugin say what it makes of an Xid."""
        names = ("marked", "unhealthy") if marked else ("skipped",)
        for say in self.plugins.values():
            for name in names:
                say(_texts()[name].format(code=code, uuid=device.uuid))


def _fitting(load: Load, device: Device, task: Task, *, alone: bool) -> Load:
    """Return a load that holds no more of a device than other processes leave: it was made for what is free.

    ``alone``: on this device only, so that nothing goes over its NVLinks.
    """
    load = replace(load, nvlink=(0.0, 0.0)) if alone else load
    others, total = [each for each in device.tasks.values() if each.pid != task.pid], device.product.memory
    free = total - device.product.reserved
    free -= sum(device.held(each, LATEST) for each in others)
    if load.held(total, math.inf) <= free:
        return load
    return replace(load, memory=0.0, mib=max(int(free * FITTING_SHARE), 0))


def _wanted(pod: Obj) -> dict[str, int]:
    """Return the devices that the containers of a pod ask for, by resource."""
    found: dict[str, int] = {}
    for spec in pod["spec"].get("containers") or ():
        for resource, amount in ((spec.get("resources") or {}).get("limits") or {}).items():
            if resource == GPU and (count := int(quantity.parse(str(amount)))):
                found[resource] = found.get(resource, 0) + count
    return found


def of_node(node: Obj) -> NodeGpus:
    """Return the devices of a node, by what its labels and its capacity say."""
    meta, capacity = node["metadata"], node["status"].get("capacity") or {}
    labels = meta.get("labels") or {}
    clients = shared_clients(labels)
    up = UPTIME + timedelta(seconds=zlib.crc32(meta["name"].encode()) % UPTIME_SPREAD_S)
    booted = parse(meta["creationTimestamp"]) - up
    count = int(capacity.get(GPU, 0)) // clients
    return NodeGpus(meta["name"], labels.get(PRODUCT_LABEL, ""), count, booted, meta["uid"], clients)
