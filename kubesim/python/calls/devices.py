"""The CUDA driver and the processor as the sandbox's libraries use them: memory, and work that takes time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from kubesim.gpu.cuda import UNNAMED, VISIBLE, Cuda, CudaError
from kubesim.gpu.xids import CUDA_ERRORS
from kubesim.python.calls.registry import GuestError, blocking, call
from kubesim.shell.machine import Process

CORE_FLOPS, CORE_BANDWIDTH = 38e9, 9e9
"""Rates of one core of a server: AVX-512 at 2.4 GHz in practice, and its part of the memory's bandwidth."""
MIN_BUSY, MIN_CHANGE = 3.0, 8.0
"""Percent: less is no work, and a change of less is not told."""


@dataclass
class Session:
    """A program's use of the driver: ``utilization`` in percent, by device."""

    cuda: Cuda | None = None
    utilization: dict[int, float] = field(default_factory=dict)


_sessions: WeakKeyDictionary[Process, Session] = WeakKeyDictionary()


def close(process: Process) -> None:
    """End a program's use of the devices."""
    session = _sessions.pop(process, None)
    if session is not None and session.cuda is not None:
        session.cuda.close()


def _driver(process: Process, visible: str | None) -> Cuda | None:
    """Return the driver, which reads the environment when it is first used."""
    machine, session = process.machine, _sessions.setdefault(process, Session())
    if machine.devices is None:
        return None
    if session.cuda is not None:
        session.cuda.close()
    env = {key: value for key, value in process.env.items() if key != VISIBLE}
    env |= {} if visible is None else {VISIBLE: visible}
    pid, name = machine.on_node(process.pid), process.argv[0]
    session.cuda = machine.devices.cuda(env, pid, name, machine.clock.now)
    return session.cuda


@call
async def describe_devices(process: Process, visible: str | None) -> dict[str, Any]:
    """Return the GPUs that the program sees, or CUDA's error (code and text), and the processor."""
    machine, cuda = process.machine, _driver(process, visible)
    gpus: list[dict[str, Any]] = []
    problem: list[object] | None = None
    try:
        gpus = [_described(cuda, at) for at in range(len(cuda.devices()))] if cuda is not None else []
    except CudaError as error:
        await machine.clock.sleep(error.after_s)
        problem = [error.code, str(error)]
    cores = min(machine.meter.most, float(machine.cpus))
    return {
        "gpus": gpus,
        "problem": problem,
        "cpus": cores,
        "cpu_flops": cores * CORE_FLOPS,
        "cpu_bandwidth": min(cores, 16) * CORE_BANDWIDTH,
        "seed": f"{machine.info.get('bootID')}/{machine.hostname}/{process.pid}",
    }


def _described(cuda: Cuda, ordinal: int) -> dict[str, Any]:
    seen = cuda.device(ordinal)
    return {
        "name": seen.name,
        "uuid": seen.uuid,
        "bus": f"{seen.device.bus}.0",
        "total": seen.total,
        "capability": list(seen.capability),
        "sms": seen.multiprocessors,
        "fp32": cuda.flops(ordinal),
        "half": cuda.flops(ordinal, "fp16"),
        "bandwidth": seen.device.product.bandwidth * 1e9 * cuda.speed(ordinal),
    }


@call
async def reserve_memory(process: Process, device: int, size: int) -> dict[str, Any]:
    """Hold so many bytes of a device in all; says whether there was room, and who has the rest."""
    session = _sessions.get(process)
    if session is None or session.cuda is None:
        raise GuestError("RuntimeError", "no device is open")
    cuda = session.cuda
    granted, failure = True, None
    try:
        cuda.open(device)
        if size > (held := cuda.allocated(device)):
            cuda.allocate(device, size - held)
        else:
            cuda.free(device, held - size)
        free, total = cuda.memory(device)
    except CudaError as error:
        await process.machine.clock.sleep(error.after_s)
        granted, failure = False, None if error.code == 2 else [error.code, str(error)]
        free, total = cuda.memory(device) if failure is None else (0, 0)
    holders = cuda.processes(device) if failure is None else []
    return {
        "granted": granted,
        "error": failure,
        "free": free,
        "total": total,
        "reserved": cuda.allocated(device),
        "holders": [[pid, bytes_] for pid, bytes_ in holders],
    }


@blocking
async def run_devices(
    process: Process, until: float, seconds: float, cores: float, busy: dict[str, float], held: int
) -> dict[str, Any]:
    """Let the work of the last ``seconds`` take its time: until a moment, on the processor and on GPUs."""
    machine, session = process.machine, _sessions.setdefault(process, Session())
    if held != process.held:
        await process.claim(held)
    for ordinal, share in busy.items():
        _use(session, int(ordinal), min(100 * share / seconds, 100.0) if seconds > 0 else 0.0)
    rate = min(cores / seconds, float(machine.cpus)) if seconds > 0 else 0.0
    machine.meter.occupy(machine.now(), rate)
    try:
        await process.sleep(max(until - machine.now(), 0.0))
    finally:
        machine.meter.occupy(machine.now(), -rate)
    code = session.cuda.error if session.cuda is not None else 0
    return {"errors": dict.fromkeys(busy, [code, CUDA_ERRORS.get(code, UNNAMED)]) if code else {}}


def _use(session: Session, ordinal: int, percent: float) -> None:
    """Let nvidia-smi and DCGM see how busy a device is, where that has changed."""
    before, cuda = session.utilization.get(ordinal, 0.0), session.cuda
    changed = abs(percent - before) >= MIN_CHANGE or (percent < MIN_BUSY) != (before < MIN_BUSY)
    if cuda is None or cuda.error or not changed:
        return
    session.utilization[ordinal] = percent
    if percent < MIN_BUSY:
        cuda.rest(ordinal)
        return
    try:
        load = "training" if percent > 60 else "input-bound"
        cuda.work(ordinal, load, (max(percent - 4, 0.0), min(percent + 3, 100.0)))
    except CudaError as error:
        cuda.error = error.code
