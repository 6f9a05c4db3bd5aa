"""The CUDA driver as one process of a container uses it.

A simulated program that computes makes one ``Cuda`` when it first needs the driver, asks it for everything, and
closes it when it ends. nvidia-smi, DCGM, Prometheus and ``kubectl top`` read the same board, so they agree with it::

    access = process.machine.devices                      # of a container; None where there is no machine to ask
    cuda = access.cuda(process.env, process.machine.on_node(process.pid), "python", process.machine.clock.now, struck)
    cuda.devices()                                        # tuple of CudaDevice, or CudaError 35, 100, 802, 803
    cuda.open(0)                                          # makes a context: CudaError 46, 101, 214, 999
    free, total = cuda.memory(0)                          # cudaMemGetInfo, in bytes
    cuda.allocate(0, size); cuda.free(0, size)            # CudaError 2: out of memory
    cuda.work(0, "training"); cuda.rest(0)                # a load of loads.yaml, until it rests
    seconds = flop / cuda.flops(0, "fp16")                # peak of this process's share; 40 % of it is a good program
    cuda.close()

The environment decides once, with the first call, as it does for the real library. ``CudaError.after_s`` is for how
long the call blocks before it fails; the caller sleeps so long. When a fault strikes the process, ``struck`` is
called with CUDA's number, and every later call raises it: such errors are sticky until the process ends.
A container without the driver's libraries has error 35 (``cudaErrorInsufficientDriver``, driver version 0), one with
them and no device that it may see 100 (``cudaErrorNoDevice``). Numbers and texts are those of CUDA's headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from kubesim.gpu.devices import Device, Task
from kubesim.gpu.preload import injected_error
from kubesim.gpu.products import Load, loads
from kubesim.gpu.xids import CUDA_ERRORS

if TYPE_CHECKING:
    from kubesim.gpu.access import Access

VISIBLE = "CUDA_VISIBLE_DEVICES"
OUT_OF_MEMORY, INSUFFICIENT_DRIVER, NO_DEVICE, INVALID_DEVICE = 2, 35, 100, 101
NOT_READY, MISMATCH, UNKNOWN = 802, 803, 999
UNNAMED = "unrecognized error code"
"""What cudaGetErrorString returns for a number that CUDA does not give."""
MIB = 1 << 20
GSP_TIMEOUT_S = 45.0
"""The seconds that a call waits for a firmware that does not answer (Xid 119 says so)."""
SLOWED = 0.45
"""Share of its speed that a device keeps while the hardware slows it."""


class CudaError(Exception):
    """A call has failed. ``code`` is CUDA's number, the message its text (cudaGetErrorString)."""

    def __init__(self, code: int, after_s: float = 0.0) -> None:
        super().__init__(CUDA_ERRORS.get(code, UNNAMED))
        self.code = code
        self.after_s = after_s
        """Seconds for which the call blocks before it fails."""


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device under the number by which one process knows it."""

    ordinal: int
    device: Device

    @property
    def name(self) -> str:
        """The name in cudaDeviceProp."""
        return self.device.product.name

    @property
    def uuid(self) -> str:
        """The UUID, with its prefix GPU-."""
        return self.device.uuid

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability."""
        major, minor = self.device.product.compute.split(".")
        return int(major), int(minor)

    @property
    def total(self) -> int:
        """The bytes of memory that programs may share (totalGlobalMem)."""
        return (self.device.product.memory - self.device.product.reserved) * MIB

    @property
    def multiprocessors(self) -> int:
        """The number of streaming multiprocessors."""
        return self.device.product.multiprocessors

    def tasks(self, at: datetime) -> list[Task]:
        """Return the processes on it."""
        return list(self.device.state_at(at).tasks)

    def held(self, at: datetime) -> int:
        """Return the bytes that processes hold on it."""
        return sum(self.device.held(task, at) for task in self.tasks(at)) * MIB


def visible(found: list[Device], environment: Mapping[str, str]) -> tuple[CudaDevice, ...]:
    """Return what CUDA enumerates of the devices that a container has.

    Lost devices do not answer; CUDA_VISIBLE_DEVICES chooses and orders by number or by the beginning of a UUID, and
    ends at its first word that names none. Source: CUDA C++ programming guide, "CUDA environment variables".
    """
    there = [CudaDevice(0, device) for device in found if not device.trouble.lost]
    wanted = environment.get(VISIBLE)
    chosen = there if wanted is None else _choose(there, wanted)
    return tuple(replace(each, ordinal=number) for number, each in enumerate(chosen))


def _choose(there: list[CudaDevice], wanted: str) -> list[CudaDevice]:
    chosen: list[CudaDevice] = []
    for word in (part.strip() for part in wanted.split(",")):
        if word.isdecimal():
            found = next(iter(there[int(word) : int(word) + 1]), None)
        else:
            found = next((each for each in there if len(word) > 4 and each.uuid.startswith(word)), None)
        if found is None:
            break
        if found in chosen:
            return []
        chosen.append(found)
    return chosen


class Cuda:
    """The driver in one process; see the head of this module. Made by ``Access.cuda``."""

    def __init__(
        self,
        access: Access,
        environment: Mapping[str, str],
        pid: int,
        name: str,
        now: Callable[[], datetime],
        struck: Callable[[int], None] = lambda code: None,
    ) -> None:
        self.error = 0
        """The error of every call from now on; 0 while all is well."""
        self._access = access
        self._environment = dict(environment)
        self._pid = pid
        self._name = name
        self._now = now
        self._struck = struck
        self._devices: tuple[CudaDevice, ...] | None = None
        self._held: dict[int, int] = {}
        """Ordinal -> the bytes that it has allocated; for the devices on which it has a context."""
        self._doing: dict[int, Load] = {}

    def devices(self) -> tuple[CudaDevice, ...]:
        """Return what it sees (cuInit and cudaGetDeviceCount). Raises ``CudaError``."""
        if self.error:
            raise CudaError(self.error)
        if self._devices is None:
            if code := injected_error(self._environment, self._access.read):
                raise CudaError(code)
            board = self._access.board
            if code := self._access.driver_error():
                raise CudaError(code)
            devices = self._access.devices()
            if devices and all(device.trouble.stalled for device in devices):
                raise CudaError(UNKNOWN, GSP_TIMEOUT_S)
            if not (found := visible(devices, self._environment)):
                raise CudaError(NO_DEVICE)
            if not board.usable:
                raise CudaError(NOT_READY)
            self._devices = found
        return self._devices

    def device(self, ordinal: int) -> CudaDevice:
        """Return a device. Raises ``CudaError`` 101 where there is none of that number, and as ``devices``."""
        found = self.devices()
        if not 0 <= ordinal < len(found):
            raise CudaError(INVALID_DEVICE)
        return found[ordinal]

    def failure(self, ordinal: int) -> tuple[int, float]:
        """Return CUDA's error with which a context on a device fails, and after how many seconds; 0: with none."""
        seen = self.device(ordinal)
        if seen.device.trouble.stalled:
            return UNKNOWN, GSP_TIMEOUT_S
        return seen.device.context_error, 0.0

    def open(self, ordinal: int) -> CudaDevice:
        """Make a context on a device, where there is none yet. Raises ``CudaError``."""
        seen = self.device(ordinal)
        if ordinal in self._held:
            return seen
        code, after_s = self.failure(ordinal)
        if code:
            raise CudaError(code, after_s)
        context = loads()["small"]
        if context.mib * MIB > self.memory(ordinal)[0]:
            raise CudaError(OUT_OF_MEMORY)
        self._held[ordinal], self._doing[ordinal] = 0, context
        self._access.board.clients[self._pid] = self._strike
        load = self._load(ordinal)
        seen.device.start(Task(self._pid, self._name, self._access.owner, load, self._now()))
        return seen

    def memory(self, ordinal: int) -> tuple[int, int]:
        """Return the bytes that are free on a device, and all (cudaMemGetInfo). Raises ``CudaError``."""
        seen = self.device(ordinal)
        return max(seen.total - seen.held(self._now()), 0), seen.total

    def processes(self, ordinal: int) -> list[tuple[int, int]]:
        """Return the numbers on the node of the processes on a device, with the bytes that each holds, as NVML tells.

        In a container PyTorch does not find its own number among them, so that it speaks of itself as of another.
        """
        seen = self.device(ordinal)
        return [(task.pid, seen.device.held(task, self._now()) * MIB) for task in seen.tasks(self._now())]

    def allocated(self, ordinal: int) -> int:
        """Return the bytes that this process has allocated on a device."""
        return self._held.get(ordinal, 0)

    def allocate(self, ordinal: int, size: int) -> None:
        """Take memory of a device. Raises ``CudaError`` 2 where it does not suffice."""
        self.open(ordinal)
        if size > self.memory(ordinal)[0]:
            raise CudaError(OUT_OF_MEMORY)
        self._held[ordinal] += size
        self._turn(ordinal)

    def free(self, ordinal: int, size: int) -> None:
        """Give memory back; nothing happens where the context is gone."""
        if ordinal in self._held:
            self._held[ordinal] = max(self._held[ordinal] - size, 0)
            self._turn(ordinal)

    def work(self, ordinal: int, load: str = "training", util: tuple[float, float] | None = None) -> None:
        """Keep a device busy with a load of ``loads.yaml`` until ``rest``; ``util`` replaces its utilisation.

        Raises ``CudaError``.
        """
        self.open(ordinal)
        wanted = loads()[load]
        self._doing[ordinal] = replace(wanted, util=util) if util else wanted
        self._turn(ordinal)

    def rest(self, ordinal: int) -> None:
        """Let a device wait: its memory stays taken."""
        if ordinal in self._held and self._doing[ordinal].name != "small":
            self._doing[ordinal] = loads()["small"]
            self._turn(ordinal)

    def flops(self, ordinal: int, kind: str = "fp32") -> float:
        """Return the floating-point operations per second that this process could have of a device.

        ``kind``: fp32, tf32, or fp16 (bf16 is as fast). Time-slicing gives a part to each process that works, a hot
        device less. Raises ``CudaError``.
        """
        seen = self.device(ordinal)
        return seen.device.product.tflops[kind] * 1e12 * self.speed(ordinal)

    def speed(self, ordinal: int) -> float:
        """Return the share of a whole, healthy device's speed that this process has of it now."""
        seen, trouble = self.device(ordinal), self.device(ordinal).device.trouble
        working = [task for task in seen.tasks(self._now()) if task.pid != self._pid and task.load.util[1] > 5]
        slow = SLOWED if trouble.hot or trouble.power_brake else 1.0
        return slow / (1 + len(working))

    def close(self) -> None:
        """End: contexts and memory are gone."""
        self._access.board.clients.pop(self._pid, None)
        for ordinal in self._held:
            assert self._devices is not None
            device = self._devices[ordinal].device
            if self._pid in device.tasks:
                device.end(self._pid, self._now())
        self._held.clear()

    def _load(self, ordinal: int) -> Load:
        """Return what this process does to a device now, with exactly the memory that it has."""
        size = loads()["small"].mib + -(-self._held[ordinal] // MIB)
        return replace(self._doing[ordinal], mib=size, memory=0.0, ramp=0.0)

    def _turn(self, ordinal: int) -> None:
        device = self.device(ordinal).device
        device.turn(self._pid, self._load(ordinal), self._now())

    def _strike(self, code: int) -> None:
        self.error = code
        self._struck(code)
