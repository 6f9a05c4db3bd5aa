"""torch.cuda: the GPUs that the container was given, and the memory that this process has of them."""

import math
import types
import warnings
from contextlib import ContextDecorator

import _device
from _device import MIB, session
from _elements import error

from torch import _types
from torch._types import OutOfMemoryError, device_errors, initialize, module, place, state

nccl = types.SimpleNamespace(version=lambda: _types.numbers("nccl"))
_warned = []


def device_count():
    about = session.facts()
    code, text = about["problem"] or (_types.INSUFFICIENT, "")
    if not about["gpus"] and code not in (_types.INSUFFICIENT, _types.NO_DEVICE) and not _warned:
        _warned.append(code)
        text = error("torch.unexpected", code=code, text=text)
        place = "(Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)"
        warnings.warn(f"CUDA initialization: {text} {place}", stacklevel=2)
    return len(about["gpus"])


def _gpu(device=None):
    gpus = initialize()
    index = state.current if device is None else device if isinstance(device, int) else place(device).index
    if not 0 <= index < len(gpus):
        raise AssertionError("Invalid device id")
    return gpus[index]


class _CudaDeviceProperties(types.SimpleNamespace):
    def __repr__(self):
        shown = {**vars(self), "total_memory": f"{self.total_memory // MIB}MB", "name": repr(self.name)}
        return f"_CudaDeviceProperties({', '.join(f'{key}={value}' for key, value in shown.items())})"


def get_device_properties(device=None):
    about = _gpu(device).about
    major, minor = about["capability"]
    return _CudaDeviceProperties(
        name=about["name"], major=major, minor=minor, total_memory=about["total"],
        multi_processor_count=about["sms"], uuid=about["uuid"].partition("-")[2])  # fmt: skip


def synchronize(device=None):
    with device_errors():
        session.wait(_gpu(device))
        session.settle()
        session.wait(_gpu(device))


def mem_get_info(device=None):
    with device_errors():
        answer = _gpu(device).reserve(_gpu(device).reserved)
    return answer["free"], answer["total"]


def empty_cache():
    for gpu in session.gpus:
        gpu.reserve(-(-gpu.allocated // (2 * MIB)) * 2 * MIB)


def reset_peak_memory_stats(device=None):
    gpu = _gpu(device)
    gpu.peak, gpu.peak_reserved = gpu.allocated, gpu.reserved


memory_allocated, memory_reserved, max_memory_allocated, max_memory_reserved = (
    lambda device=None, *, name=name: getattr(_gpu(device), name) if session.gpus else 0
    for name in ("allocated", "reserved", "peak", "peak_reserved")
)
is_available, is_initialized = lambda: device_count() > 0, lambda: bool(session.gpus)
set_device = lambda device: setattr(state, "current", place(device).index)
current_device = lambda: initialize() and state.current
init = lambda: initialize() and None
get_device_name = lambda device=None: _gpu(device).about["name"]
get_device_capability = lambda device=None: tuple(_gpu(device).about["capability"])
is_bf16_supported = lambda: get_device_capability()[0] >= 8
manual_seed = manual_seed_all = lambda seed: None


def memory_summary(device=None, abbreviated=False):
    gpu, line = _gpu(device), "|" + "=" * 75 + "|"
    rows = [("Allocated memory", gpu.allocated, gpu.peak), ("GPU reserved memory", gpu.reserved, gpu.peak_reserved)]
    body = "\n".join(f"| {name:<21} | {now // MIB:>8} MiB | {peak // MIB:>8} MiB |" for name, now, peak in rows)
    return f"{line}\n|{f'PyTorch CUDA memory summary, device ID {gpu.index}':^75}|\n{line}\n{body}\n{line}"


class Event:
    """A mark in a stream, with the moment at which the device passes it."""

    __init__ = lambda self, enable_timing=False, blocking=False, interprocess=False: None
    record = lambda self, stream=None: setattr(self, "at", _device.wall() + max(_gpu().ready, session.lag))
    synchronize = lambda self: synchronize()
    elapsed_time = lambda self, other: (other.at - self.at) * 1000


class autocast(ContextDecorator):
    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        name = dtype.name if dtype else "float16" if device_type == "cuda" else "bfloat16"
        self.wanted = (device_type, name) if enabled else None

    def __enter__(self):
        self.before, state.autocast = state.autocast, self.wanted

    def __exit__(self, *error):
        state.autocast = self.before


class GradScaler:
    def __init__(self, device="cuda", init_scale=65536.0, growth_interval=2000, enabled=True):
        self._scale, self.interval = init_scale if enabled else 1.0, growth_interval if enabled else math.inf
        self.steps, self.unscaled = 0, False

    scale, get_scale = lambda self, loss: loss * self._scale, lambda self: self._scale
    state_dict = lambda self: {"scale": self._scale, "_growth_tracker": self.steps}
    load_state_dict = lambda self, found: setattr(self, "_scale", found["scale"])

    def unscale_(self, optimizer):
        for each in () if self.unscaled else optimizer.parameters():
            if each.grad is not None and each.grad._known():
                each.grad = each.grad / self._scale
        self.unscaled = True

    def step(self, optimizer):
        self.unscale_(optimizer)
        return optimizer.step()

    def update(self):
        self.steps, self.unscaled = self.steps + 1, False
        self._scale *= 1 if self.steps % self.interval else 2


module("torch.amp", autocast=autocast, GradScaler=GradScaler)
_autocast = lambda enabled=True, dtype=None: autocast("cuda", dtype, enabled)
module("torch.cuda.amp", autocast=_autocast, GradScaler=GradScaler)
__all__ = ["OutOfMemoryError"]
