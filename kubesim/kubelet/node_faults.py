"""Faults that were let happen on one node, and the leases that keep them going.

They belong to the machine, as hardware's do: they outlive the agent that began them, and the one that comes after it
knows them. Each ends at its own deadline or with its lease, whichever is first; nobody has to be alive for that. A
fault that somebody has repaired by other means (a reset, a reboot, ``systemctl start``) is none any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zlib import crc32

from kubesim.api import quantity
from kubesim.clock import Clock, Timer
from kubesim.errors import Obj
from kubesim.gpu.devices import Task
from kubesim.gpu.products import driver, loads
from kubesim.gpu.xids import CUDA, LAYERS, LOG, USER, xids
from kubesim.kubelet.thresholds import DISK, INODES, MEMORY, PIDS
from kubesim.times import micro, parse

if TYPE_CHECKING:
    from kubesim.kubelet.host import Node

MAX_S = 8 * 3600
RESOURCES = {"memory": MEMORY, "disk": DISK, "inodes": INODES, "pids": PIDS}
"""What of a node may be used, and how kubelets name it."""
SLOWED = {"throttle": "power_brake", "overheat": "hot"}
TAKEN = {"memory_pressure": ("held", 0.97), "compute_overload": ("burn", 0.1)}
"""Troubles of a GPU without an Xid: its hardware slows it down, or a process takes a share of its free memory."""
LIBRARY, SWITCHES = "library", {"module": "built", "toolkit": "toolkit"}
"""Parts of the driver: libraries, updated without a reboot; the module in the next kernel; the container toolkit."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One kind of fault: how it begins, whether it is there, how it ends. Each is told the fault's parameters."""

    begin: Callable[[Node, Obj, datetime], None]
    is_there: Callable[[Node, Obj], bool]
    end: Callable[[Node, Obj, datetime], None]


class NodeFaults:
    """Those of one node. ``noted`` is called when ``dump`` tells something else than before."""

    def __init__(self, node: Node, clock: Clock, noted: Callable[[], None]) -> None:
        self._node, self._clock, self._noted = node, clock, noted
        self._leases: dict[str, datetime] = {}
        self._faults: dict[str, Obj] = {}
        self._timer: Timer | None = None

    def lease(self, holder: str, seconds: float) -> datetime:
        """Let a holder keep faults for so long from now; 0 gives the lease back, and its faults end."""
        until = self._leases[holder] = self._clock.now() + timedelta(seconds=seconds)
        self._expire()
        return until

    def is_leased(self, holder: str) -> bool:
        """Return whether a holder has a live lease."""
        return holder in self._leases and self._leases[holder] > self._clock.now()

    def active(self) -> list[Obj]:
        """Return the faults that are there, each with the moment at which it ends by itself."""
        for name in [name for name, fault in self._faults.items() if not self._is_there(fault)]:
            del self._faults[name]
        return [{**fault, "expires_at": micro(self._until(fault))} for fault in self._faults.values()]

    def find(self, name: str) -> Obj | None:
        """Return a fault that is there."""
        return next((fault for fault in self.active() if fault["fault_id"] == name), None)

    def begin(self, name: str, holder: str, kind: str, parameters: Obj, seconds: float) -> None:
        """Let a fault happen, for so long at most."""
        now = self._clock.now()
        EFFECTS[kind].begin(self._node, parameters, now)
        until = micro(now + timedelta(seconds=seconds))
        known = {"fault_id": name, "kind": kind, **parameters}
        self._faults[name] = {**known, "lease": holder, "injected_at": micro(now), "until": until}
        self._expire()

    def end(self, name: str) -> None:
        """Take a fault back."""
        fault = self._faults.pop(name)
        if self._is_there(fault) and not self._is_shared(fault):
            EFFECTS[fault["kind"]].end(self._node, fault, self._clock.now())
        self._noted()

    def dump(self) -> Obj:
        """Return what ``restore`` takes."""
        return {"leases": {name: micro(until) for name, until in self._leases.items()}, "faults": self._faults}

    def restore(self, saved: Obj) -> None:
        """Go on with what ``dump`` has told, and end what has run out meanwhile."""
        self._leases = {name: parse(until) for name, until in saved["leases"].items()}
        self._faults = saved["faults"]
        for fault in [fault for fault in self._faults.values() if fault.get("effect") in TAKEN]:
            _burden(self._node, fault, self._clock.now())  # processes do not outlive a restart by themselves
        self._expire()

    def stop(self) -> None:
        """Watch no deadline any more: the machine is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _is_there(self, fault: Obj) -> bool:
        return EFFECTS[fault["kind"]].is_there(self._node, fault)

    def _is_shared(self, fault: Obj) -> bool:
        """Return whether another fault has damaged the same GPU: it is repaired with the last of them."""
        gpu = (fault["kind"], fault.get("gpu_id"))
        return gpu[0] == "xid" and any((other["kind"], other.get("gpu_id")) == gpu for other in self._faults.values())

    def _until(self, fault: Obj) -> datetime:
        return min(parse(fault["until"]), self._leases.get(fault["lease"], self._clock.now()))

    def _expire(self) -> None:
        """End what has run out, and look again when the next will have."""
        now = self._clock.now()
        for name in [name for name, fault in self._faults.items() if self._until(fault) <= now]:
            self.end(name)
        self._leases = {name: until for name, until in self._leases.items() if until > now}
        self.stop()
        ends = [self._until(fault) for fault in self._faults.values()]
        left = (min(ends) - now).total_seconds() if ends else 0.0
        self._timer = self._clock.call_later(left, self._expire) if ends else None
        self._noted()


def _strike(node: Node, about: Obj, at: datetime) -> None:
    node.gpus.board.xid(about["gpu_id"], about["xid_type"], at, about["layers"])


def _is_struck(node: Node, about: Obj) -> bool:
    """Return whether a device shows an Xid still; one that does nothing lasting is told of until a reboot."""
    board, event = node.gpus.board, xids()[about["xid_type"]]
    device = board.devices[about["gpu_id"]]
    if board.booted > parse(about["injected_at"]):
        return False
    if about["layers"] == CUDA:
        return bool(device.trouble.refuses)
    lasts = "device" in LAYERS[about["layers"]] and event.device
    shown = any(getattr(device.trouble, name) for name in event.device) or device.index in board.marked
    return not lasts or shown


def _heal(node: Node, about: Obj, at: datetime) -> None:
    board, gpu = node.gpus.board, about["gpu_id"]
    if about["layers"] != LOG:
        board.repair(gpu, at)
    if about["layers"] != CUDA:
        board.log.write(
            at, f"nvsentinel-gpu-reset: GPU reset executed: {board.devices[gpu].uuid}, success: true", 6, USER
        )


def _break_driver(node: Node, about: Obj, at: datetime) -> None:
    board = node.gpus.board
    if part := SWITCHES.get(about["part"]):
        setattr(board, part, False)
    else:
        board.update_driver(about["version"], at)
    board.changed()


def _is_driver_broken(node: Node, about: Obj) -> bool:
    board = node.gpus.board
    part = SWITCHES.get(about["part"])
    return not getattr(board, part) if part else board.library == about["version"]


def _mend_driver(node: Node, about: Obj, at: datetime) -> None:
    board = node.gpus.board
    part = SWITCHES.get(about["part"])
    setattr(board, part or "library", bool(part) or driver().version)
    board.load(at)
    board.changed()


def _stop(node: Node, about: Obj, at: datetime) -> None:
    node.agents.services.stop(about["service"])


def _is_stopped(node: Node, about: Obj) -> bool:
    return not node.agents.services.runs(about["service"])


def _start(node: Node, about: Obj, at: datetime) -> None:
    node.agents.services.start(about["service"])


def _use(node: Node, about: Obj, at: datetime) -> None:
    resource = RESOURCES[about["resource"]]
    about["before"] = node.watch.outside.get(resource, 0)
    node.watch.use(resource, _amount(about))


def _is_used(node: Node, about: Obj) -> bool:
    return node.watch.outside.get(RESOURCES[about["resource"]]) == _amount(about)


def _amount(about: Obj) -> int:
    return int(quantity.parse(about["amount"]))


def _burden(node: Node, about: Obj, at: datetime) -> None:
    device = node.gpus.board.devices[about["gpu_id"]]
    if about["effect"] in SLOWED:
        return device.suffer(at, **{SLOWED[about["effect"]]: True})
    load, share = TAKEN[about["effect"]]
    free = max(device.product.memory - device.product.reserved - device.used(at), 1)
    taken = replace(loads()[load], memory=0.0, mib=int(free * share) + 1)
    return device.start(Task(_pid(about), "python3", "", taken, at))


def _is_burdened(node: Node, about: Obj) -> bool:
    device, slowed = node.gpus.board.devices[about["gpu_id"]], SLOWED.get(about["effect"])
    return bool(getattr(device.trouble, slowed)) if slowed else _pid(about) in device.tasks


def _relieve(node: Node, about: Obj, at: datetime) -> None:
    device, slowed = node.gpus.board.devices[about["gpu_id"]], SLOWED.get(about["effect"])
    return device.suffer(at, **{slowed: False}) if slowed else device.end(_pid(about), at)


def _pid(about: Obj) -> int:
    return 4_000_000 + crc32(f"{about['effect']}/{about['gpu_id']}".encode()) % 190_000


EFFECTS: Mapping[str, Effect] = {
    "xid": Effect(_strike, _is_struck, _heal),
    "gpu": Effect(_burden, _is_burdened, _relieve),
    "driver": Effect(_break_driver, _is_driver_broken, _mend_driver),
    "service": Effect(_stop, _is_stopped, _start),
    "pressure": Effect(
        _use, _is_used, lambda node, about, at: node.watch.use(RESOURCES[about["resource"]], about["before"])
    ),
}
