"""Simulated time and memory of what the libraries compute: the part of CUDA, its driver and the processor.

A kernel costs the host a few microseconds and its device what its speed implies; they meet where the program waits.
What has passed is settled with the machine at its next call, or after a while: a training step needs no call.
"""

import os
import time

import machine
import wit_world

LAUNCH_S, KERNEL_S, CONTEXT_S = 5e-6, 2e-6, 0.35
MIN_LAG_S, MAX_LAG_S = 0.01, 1.0
"""Seconds that a program, or a device's queue, is ahead of the machine's clock before it is told, and at most."""
EFFICIENCY, CPU_EFFICIENCY, TRAFFIC = 0.5, 0.35, 0.75
MIB = 1 << 20
wall = time.time


class DeviceFailedError(Exception):
    """A device has failed, with CUDA's code and text."""


class DeviceMemoryError(Exception):
    """A device has no room: the device, the size, and the machine's answer."""


class Gpu:
    """A device that the program sees, and what PyTorch's allocator holds of it."""

    def __init__(self, index, about):
        self.index, self.about, self.fault = index, about, None
        self.ready = self.busy = 0.0
        self.allocated = self.reserved = self.peak = self.peak_reserved = 0

    def claim(self, size):
        """Take memory in blocks of 512 bytes, out of segments of 2 and 20 MiB. Raises DeviceMemoryError."""
        if not self.peak:
            session.spend(CONTEXT_S)
        size = -(-size // 512) * 512
        if self.allocated + size > self.reserved:
            segment = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            answer = self.reserve(self.reserved + segment)
            if not answer["granted"]:
                answer = self.reserve(self.allocated + segment)
            if not answer["granted"]:
                raise DeviceMemoryError(self, size, answer)
            self.peak_reserved = max(self.peak_reserved, self.reserved)
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        return size

    def reserve(self, size):
        """Hold so much in all; the machine's answer tells of the device's memory. Raises DeviceFailedError."""
        answer = machine.ask("reserve_memory", device=self.index, size=size)
        self.fault = self.fault or answer["error"]
        if self.fault:
            raise DeviceFailedError(*self.fault)
        self.reserved = answer["reserved"]
        return answer


class Claim:
    """Memory of a device, or of the host, that goes with its last array."""

    def __init__(self, gpu, size):
        self.gpu, self.size = gpu, 0
        self.size = gpu.claim(size) if gpu else size
        if gpu is None:
            session.held += size
            session.spend(size / 8e9 if size > MIB else 0)

    def __del__(self):
        if self.gpu:
            self.gpu.allocated -= self.size
        else:
            session.held -= self.size


class Session:
    """The program's own clock, ahead of the machine's by ``lag``, and its devices."""

    def __init__(self):
        self.lag = self.cores = self.flops = self.moved = 0.0
        self.held = self.told = 0
        self.gpus, self.about, self.settling = [], None, False

    def facts(self):
        """Return what the machine tells of itself; asked again until a device is in use."""
        if self.about is None or not self.gpus:
            self.about = machine.ask("describe_devices", visible=os.environ.get("CUDA_VISIBLE_DEVICES"))
        return self.about

    def open(self):
        """Return the devices; from now on they stay the same."""
        if not self.gpus:
            self.gpus = [Gpu(at, each) for at, each in enumerate(self.facts()["gpus"])]
        return self.gpus

    def spend(self, seconds, cores=1.0):
        """Let the program's own time pass."""
        self.lag += seconds
        self.cores += seconds * cores
        if self.lag > MAX_LAG_S or abs(self.held - self.told) > 64 * MIB:
            self.settle()

    def work(self, gpu, flops, moved, half=False):
        """Run a kernel on a device, or on the processor (None). Raises DeviceFailedError."""
        self.flops, self.moved = self.flops + flops, self.moved + moved
        if gpu is None:
            about = self.about or self.facts()
            seconds = max(flops / about["cpu_flops"], moved / about["cpu_bandwidth"]) / CPU_EFFICIENCY
            self.spend(seconds, about["cpus"] if seconds > 1e-4 else 1.0)
            return
        if gpu.fault:
            raise DeviceFailedError(*gpu.fault)
        speed, bandwidth = gpu.about["half" if half else "fp32"], gpu.about["bandwidth"]
        seconds = max(flops / (speed * EFFICIENCY), moved / (bandwidth * TRAFFIC)) + KERNEL_S
        gpu.ready, gpu.busy = max(gpu.ready, self.lag) + seconds, gpu.busy + seconds
        self.spend(LAUNCH_S)
        if gpu.ready - self.lag > MAX_LAG_S:
            self.spend(gpu.ready - self.lag - MAX_LAG_S)

    def wait(self, gpu):
        """Wait for a device. Raises DeviceFailedError."""
        if gpu and gpu.ready > self.lag:
            self.spend(gpu.ready - self.lag)
        if gpu and gpu.fault:
            raise DeviceFailedError(*gpu.fault)

    def settle(self):
        """Let the machine's clock come up to the program's."""
        if self.settling or self.lag < MIN_LAG_S and abs(self.held - self.told) < MIB:
            return
        self.settling, lag, busy = True, self.lag, {}
        for gpu in self.gpus:
            later = max(gpu.ready - lag, 0.0)
            busy[gpu.index] = max(gpu.busy - later, 0.0)
            gpu.busy, gpu.ready = gpu.busy - busy[gpu.index], later
        cores, self.lag, self.cores, self.told = self.cores, 0.0, 0.0, self.held
        try:
            answer = machine.ask(
                "run_devices", until=wall() + lag, seconds=lag, cores=cores, busy=busy, held=self.told
            )
        finally:
            self.settling = False
        for gpu in self.gpus:
            gpu.fault = gpu.fault or answer["errors"].get(str(gpu.index))


session = Session()
asked = wit_world.host


def host(name, args):
    """Ask the machine once its clock is where the program's is."""
    session.settle()
    return asked(name, args)


def ahead(clock, unit):
    def read():
        return clock() + (session.lag if unit == 1 else int(session.lag * unit))

    read.__name__ = read.__qualname__ = clock.__name__
    return read


wit_world.host = host
for each in ("time", "monotonic", "perf_counter"):
    setattr(time, each, ahead(getattr(time, each), 1))
    setattr(time, each + "_ns", ahead(getattr(time, each + "_ns"), 10**9))
