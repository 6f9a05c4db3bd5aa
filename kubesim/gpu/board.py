"""The devices of one node: who has which, what happens to them, and the kernel's log of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from zlib import crc32

from kubesim import data
from kubesim.gpu.devices import Device, Task
from kubesim.gpu.products import Product, driver, machine_of
from kubesim.gpu.xids import COMBINED, LAYERS, KernelLog, strike, write

GPU = "nvidia.com/gpu"
KERNEL = "5.15.0-1073-gke"
BUILD = "#82-Ubuntu SMP Tue Mar 4 18:08:31 UTC 2025"
"""Which build of it; as ``uname -v`` has it."""
COMPILED = (
    "(buildd@lcy02-amd64-059) (gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0, GNU ld (GNU Binutils for Ubuntu) 2.38)"
)
COMMAND_LINE = (
    "BOOT_IMAGE=/vmlinuz-{kernel} root=PARTUUID=5f5b0e1c-03 ro console=ttyS0 net.ifnames=0 "
    "systemd.unified_cgroup_hierarchy=1"
)


SHORT = (
    "Allocate failed due to requested number of devices unavailable for {}. Requested: {}, Available: {}, "
    "which is unexpected"
)


class NoReset(Exception):
    """A device cannot be reset; the message is the driver's."""


class NoDevice(Exception):
    """The device plugin has not as many healthy devices as were asked for; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What one container was given: a device (``replica`` where time-slicing shares it)."""

    device: int
    replica: int = 0


Ended = Callable[[Task, int], None]
MODULE = "nvidia"
MODULES = frozenset({MODULE, "nvidia_uvm", "nvidia_modeset", "nvidia_drm"})
"""The driver, and the parts that go with it."""
LOADING_S = 24.0
"""When the driver has been loaded, in seconds after a boot."""
PREEMPTED, SYSTEM_NOT_READY = 45, 802
"""The Xid of what is taken from a device, and CUDA's error where the switches are not configured."""
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""What the device plugin takes for an error of the application; any other Xid makes it call a device unhealthy."""


class Board:
    """All devices of a node. ``ended`` is called for each process that an event kills, with its CUDA error.

    ``seed`` decides on their identity: where the node's name does, two clusters have the same GPUs.
    """

    def __init__(
        self,
        node: str,
        product: Product,
        count: int,
        booted: datetime,
        *,
        replicas: int = 1,
        ended: Ended | None = None,
        seed: str = "",
    ) -> None:
        self.node = node
        self.product = product
        self.replicas = replicas
        self.booted = booted
        self.log = KernelLog(booted)
        self.devices = [Device(seed or node, index, count, product, booted) for index in range(count)]
        self.given: dict[str, tuple[str, tuple[Slot, ...]]] = {}
        """Owner (namespace/pod/container) -> resource and slots."""
        self.marked: set[int] = set()
        """The devices that the device plugin calls unhealthy: until it starts again, for it never looks back."""
        self.managed = True
        """Whether a plugin outside the cluster's pods speaks for the devices: that one looks again after a reset."""
        self.registered = False
        """Tell whether a pod's device plugin runs, which has the devices open."""
        self.library = driver().version
        """The version of the driver's libraries: after an update without a reboot not that of the kernel's module."""
        self.toolkit = True
        """Whether the container toolkit is installed."""
        self.built = True
        """Whether the driver's modules are there for the kernel that runs."""
        self.unloaded: frozenset[str] = frozenset()
        """Those of the driver's modules that are not in the kernel."""
        self.without_driver: datetime | None = None
        """Since when the driver is not in the kernel; None where it is."""
        self.fabric = True
        """Whether the switches between the devices are configured: the fabric manager runs."""
        self.struck: Callable[[Device, int, bool], None] = lambda device, code, marked: None
        """Told of each Xid, and whether the device plugin marks its device for it."""
        self.noted: Callable[[], None] = lambda: None
        """Called when something has changed that ``dump`` tells of, and that nobody outside sees."""
        self.changed: Callable[[], None] = lambda: None
        """Called when the node has other resources, or other healthy ones, than before."""
        self.clients: dict[int, Callable[[int], None]] = {}
        """Process -> called with the CUDA error that ends its use of the devices."""
        self._told_of = ended
        self._log_boot()

    def resources(self) -> dict[str, int]:
        """Return what the device plugin advertises as capacity."""
        return {GPU: len(self.devices) * self.replicas} if self.devices else {}

    def healthy(self) -> dict[str, int]:
        """Return the same of devices that are well: what the node has as allocatable."""
        well = sum(map(self._well, self.devices)) * self.replicas
        return dict.fromkeys(self.resources(), well)

    def free(self, resource: str) -> int:
        """Return how many healthy slots nobody has."""
        return len(self._free(resource))

    def look_again(self) -> None:
        """Find out which devices are well, as a device plugin does when it starts."""
        self.marked = {device.index for device in self.devices if not device.usable or device.trouble.stalled}
        self.changed()

    def _well(self, device: Device) -> bool:
        return self.loaded and device.index not in self.marked

    def allocate(self, owner: str, resource: str, count: int, at: datetime) -> tuple[Slot, ...]:
        """Give ``count`` slots to a container, the same again to the same owner. Raises NoDevice."""
        if owner in self.given:
            return self.given[owner][1]
        free = self._free(resource)
        if len(free) < count:
            raise NoDevice(SHORT.format(resource, count, len(free)))
        # The same device's replicas come last: the plugin spreads shared use.
        chosen = tuple(sorted(free, key=lambda slot: (slot.replica, slot.device))[:count])
        self.given[owner] = (resource, chosen)
        self._tell_devices(at)
        self.noted()
        return chosen

    def release(self, owner: str, at: datetime) -> None:
        """Take back what a container had; its processes leave the devices."""
        if self.given.pop(owner, None) is not None:
            self._tell_devices(at)
            self.noted()
        for device in self.devices:
            for task in [task for task in device.tasks.values() if task.owner == owner]:
                device.end(task.pid, at)

    def start(self, task: Task, only: int | None = None) -> None:
        """Let a process run on everything its container has, or on the GPU that it sees under a number."""
        for slot in self.given.get(task.owner, ("", ()))[1][slice(only, None if only is None else only + 1)]:
            self.devices[slot.device].start(task)

    def visible(self, owner: str) -> list[Device]:
        """Return what a container sees as GPU 0, 1, ..."""
        return [self.devices[slot.device] for slot in self.given.get(owner, ("", ()))[1]]

    def environment(self, owner: str) -> dict[str, str]:
        """Return the variables that the device plugin sets in a container."""
        names = [device.uuid for device in self.visible(owner)]
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(names)} if names else {}

    def xid(self, index: int, code: int, at: datetime, layers: str = COMBINED) -> None:
        """Let an Xid happen on a device. Raises KeyError for an unknown code, IndexError for an unknown device."""
        struck = strike(self.devices[index], self.log, code, at, self._ended, layers=layers)
        if "device" in LAYERS[layers]:
            for each in sorted(struck):
                self.struck(self.devices[index], each, each not in APPLICATION_XIDS)
            if struck - APPLICATION_XIDS:
                self.marked.add(index)
        self.changed()

    def _ended(self, task: Task, error: int) -> None:
        """Tell a process that a fault has ended its use of the devices."""
        die = self.clients.pop(task.pid, None)
        if die is not None:
            die(error)
        if self._told_of is not None:
            self._told_of(task, error)

    def reset(self, index: int, at: datetime) -> None:
        """Reset a device (``nvidia-smi --gpu-reset``). Raises NoReset while it is in use, or lost."""
        device = self.devices[index]
        if device.trouble.lost:
            raise NoReset("GPU is lost")
        if device.tasks:
            raise NoReset("In use by another client")
        device.reset(at)
        if self.managed:
            self.look_again()

    def reboot(self, at: datetime) -> None:
        """Boot the node again: an empty log, and devices as new but for what hardware keeps."""
        self.booted = at
        self.log = KernelLog(at)
        self.unloaded, self.fabric = frozenset() if self.built else MODULES, True
        self.without_driver = None if self.built else at
        self.given.clear()
        self.clients.clear()
        self.library = driver().version
        for device in self.devices:
            device.reset(at)
            device.change(at, given=())
        self._log_boot()
        self.look_again()

    @property
    def loaded(self) -> bool:
        """Whether the driver is in the kernel."""
        return MODULE not in self.unloaded

    def unload(self, at: datetime, *modules: str) -> None:
        """Take modules of the driver out of the kernel."""
        self.unloaded |= MODULES & {*modules}
        self.without_driver = self.without_driver or (None if self.loaded else at)
        self.noted()
        self.changed()

    def load(self, at: datetime) -> bool:
        """Put the driver into the kernel; returns whether it is there then."""
        if self.built and self.unloaded:
            fresh, self.unloaded, self.without_driver = not self.loaded, frozenset(), None
            self.library = driver().version if fresh else self.library
            since = (at - self.booted).total_seconds() - LOADING_S
            for seconds, level, text in self._boot_lines() if fresh else ():
                if _of_driver(text):
                    self.log.write(self.booted + timedelta(seconds=since + seconds), text, level)
            self.look_again()
            self.noted()
        return self.loaded

    @property
    def switched(self) -> bool:
        """Whether switches join the NVLinks of the devices, which a fabric manager has to configure."""
        return bool(self.devices) and self.product.nvlinks > 0

    @property
    def usable(self) -> bool:
        """Whether a new program can use the devices at all: where not, CUDA's error is ``SYSTEM_NOT_READY``."""
        return self.fabric or not self.switched

    def set_fabric(self, at: datetime, *, configured: bool) -> None:
        """The fabric manager has begun to look after the switches, or no longer does: that ends what uses them.

        So its configuration has it by default (ABORT_CUDA_JOBS_ON_FM_EXIT=1).
        """
        self.fabric = configured
        for device in self.devices if not self.usable else ():
            for task in sorted(device.tasks.values(), key=lambda task: task.pid):
                write(device, self.log, at, PREEMPTED, "Ch 00000010", task)
                device.change(at, xid=PREEMPTED)
                device.end(task.pid, at)
                self._ended(task, SYSTEM_NOT_READY)
        self.noted()

    @property
    def mismatched(self) -> bool:
        """Whether libraries and kernel module cannot speak with each other."""
        return self.library != driver().version

    def update_driver(self, version: str, at: datetime) -> None:
        """Put other libraries beside the loaded module; the kernel says so to the first who uses them."""
        self.library = version
        if not self.mismatched:
            return
        for line in texts()["mismatch"]:
            self.log.write(at, line.format(library=version, driver=driver().version), 3)

    def repair(self, index: int, at: datetime) -> None:
        """Make a device as new, whatever has happened to it; its processes are gone."""
        device = self.devices[index]
        device.reset(at)
        device.suffer(at, narrow=None)
        self.marked.discard(index)
        self.changed()

    def dump(self) -> dict[str, Any]:
        """Return what is wrong with the devices, and was: what ``restore`` takes."""
        return {
            "marked": sorted(self.marked),
            "managed": self.managed,
            **self._software(),
            "given": {
                owner: [name, [astuple(slot) for slot in slots]] for owner, (name, slots) in self.given.items()
            },
            "devices": [d.dump() for d in self.devices],
        }

    def _software(self) -> dict[str, Any]:
        known = {"built": self.built, "unloaded": sorted(self.unloaded), "fabric": self.fabric}
        return {"library": self.library, "toolkit": self.toolkit, **known}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring the devices to what ``dump`` has told of them."""
        self.marked, self.managed = set(saved["marked"]), saved["managed"]
        self.library, self.toolkit = saved["library"], saved["toolkit"]
        self.built, self.fabric = saved.get("built", True), saved.get("fabric", True)
        self.unloaded = frozenset(saved.get("unloaded", ()))
        self.without_driver = None if self.loaded else self.booted
        for device, state in zip(self.devices, saved["devices"], strict=False):
            device.restore(state)
        for owner, (name, slots) in saved.get("given", {}).items():
            self.given[owner] = (name, tuple(Slot(slot[0], slot[-1]) for slot in slots))
        self._tell_devices(self.booted)

    def _tell_devices(self, at: datetime) -> None:
        """Let each device know to whom it is given, for what is recorded of it."""
        found: dict[int, list[str]] = {device.index: [] for device in self.devices}
        for owner, (_, slots) in self.given.items():
            for slot in slots:
                found[slot.device].append(owner)
        for device in self.devices:
            if device.state.given != tuple(found[device.index]):
                device.change(at, given=tuple(found[device.index]))

    def _free(self, resource: str) -> list[Slot]:
        taken = {slot for _, slots in self.given.values() for slot in slots}
        return [
            slot
            for device in self.devices
            if self._well(device)
            for slot in (Slot(device.index, replica) for replica in range(self.replicas if resource == GPU else 0))
            if slot not in taken
        ]

    def _log_boot(self) -> None:
        for seconds, level, text in self._boot_lines():
            if self.loaded or not _of_driver(text):
                self.log.write(self.booted + timedelta(seconds=seconds), text, level)

    def _boot_lines(self) -> Iterator[tuple[float, int, str]]:
        machine = machine_of(self.product, len(self.devices))
        values = {
            "kernel": KERNEL,
            "build": f"{COMPILED} {BUILD}",
            "line": COMMAND_LINE.format(kernel=KERNEL),
            "driver": driver().version,
            "node": self.node,
            "cpus": machine.cpus,
            "memory_kib": machine.memory_gib * 1024 * 1024,
        }
        pace = 0.9 + crc32(self.node.encode()) / 2**32 / 10  # no two machines boot equally fast
        return ((round(seconds * pace, 6), level, text.format(**values)) for seconds, level, text in texts()["boot"])


def _of_driver(text: str) -> bool:
    """Whether a line is one that the driver writes when it is loaded."""
    return "nvidia" in text.lower()


@cache
def texts() -> dict[str, Any]:
    """Return what a GPU node logs: while it boots (seconds, level, text), and of libraries that do not fit."""
    return dict(data.table(__file__, "boot.yaml"))
