"""tf.config, tf.test and tf.device: the devices that a program sees, may choose, and computes on.

Sources of wordings: tensorflow/python/eager/context.py, core/common_runtime/gpu/gpu_device.cc.
"""

import contextlib
import datetime
import os
import sys
import types
from collections import namedtuple

import _device
from _elements import EXCEPTIONS, error
from machine import start
from torch._types import CPU
from torch._types import device as torch_device

BFC_SHARE = 0.9965
"""The part of what is free of a device that TensorFlow takes when it makes the device."""
JOB = "/job:localhost/replica:0/task:0/device:"
PhysicalDevice, LogicalDevice = (namedtuple(f"{each}Device", "name device_type") for each in ("Physical", "Logical"))
OpError = type("OpError", (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
errors = types.SimpleNamespace(OpError=OpError)
for each in ("InvalidArgumentError", "ResourceExhaustedError", "InternalError"):
    EXCEPTIONS[each] = type(each, (OpError,), {"__module__": OpError.__module__})
    setattr(errors, each, EXCEPTIONS[each])


class Config:
    """tf.config: the devices that the program may see of the machine's, and those that it has made of them."""

    experimental = property(lambda self: self)

    def __init__(self):
        self.visible = self.gpus = None
        self.growth, self.scopes = {}, []

    def list_physical_devices(self, device_type=None):
        gpus = _device.session.facts()["gpus"] if is_built_with_cuda() else ()
        return _named(PhysicalDevice, "/physical_device", len(gpus), device_type)

    def list_logical_devices(self, device_type=None):
        return _named(LogicalDevice, "/device", len(self.open()), device_type)

    def get_visible_devices(self, device_type=None):
        devices = self.list_physical_devices() if self.visible is None else self.visible
        return [each for each in devices if device_type in (None, each.device_type)]

    def set_visible_devices(self, devices, device_type=None):
        devices, now = [devices] if isinstance(devices, PhysicalDevice) else [*devices], self.get_visible_devices()
        wanted = [each for each in now if device_type and each.device_type != device_type] + devices
        self.visible = self.chosen("Visible", now, wanted)

    def set_memory_growth(self, device, enable):
        self.growth[device] = self.chosen("Physical", self.growth.get(device, False), enable)

    def get_memory_info(self, device):
        gpu = self.open()[_number(device)]
        return {"current": gpu.allocated, "peak": gpu.peak}

    def chosen(self, what, old, new):
        """Return a new setting. Raises RuntimeError where it comes too late to change the old one."""
        if old != new and self.gpus is not None:
            raise error("tensorflow.late", what=what)
        return new

    def open(self):
        """Make the devices, which cannot be chosen any more; returns the GPUs."""
        if self.gpus is None:
            self.gpus, problem = [], (_device.session.facts()["problem"] or [35])[0] if is_built_with_cuda() else 35
            if problem != 35:
                text = "NO_DEVICE: no CUDA-capable device is detected" if problem == 100 else "UNKNOWN: unknown error"
                place = "external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:266"
                tell("E", place, f"failed call to cuInit: CUDA_ERROR_{text}")
            for each in self.get_visible_devices("GPU"):
                self.gpus.append(self.make(_device.session.open()[_number(each.name)], each))
        return self.gpus

    def make(self, gpu, physical):
        size, about = int(gpu.reserve(0)["free"] * BFC_SHARE), gpu.about
        if not self.growth.get(physical):
            gpu.reserve(size)
        made = (
            f"Created device {JOB}GPU:{len(self.gpus)} with {size >> 20} MB memory:  -> device: {gpu.index}, name: "
        )
        made += "{name}, pci bus id: {bus}, compute capability: {capability[0]}.{capability[1]}".format_map(about)
        tell("I", "tensorflow/core/common_runtime/gpu/gpu_device.cc:2021", made)
        return gpu

    def place(self):
        """Return the device on which an operation runs: its name, and as torch has it."""
        gpus, name = self.open(), self.scopes[-1] if self.scopes else ""
        kind, _, number = name.upper().replace("DEVICE:", "").rpartition("/")[2].partition(":")
        kind, number = kind or ("GPU" if gpus else "CPU"), int(number or 0)
        if kind == "CPU" or kind == "GPU" and number < len(gpus):
            return f"{JOB}{kind}:{number}", torch_device("cuda", gpus[number].index) if kind == "GPU" else CPU
        known = ", ".join([f"{JOB}CPU:0", *(f"{JOB}GPU:{at}" for at in range(len(gpus)))])
        raise error("tensorflow.device", name=f"{JOB}{kind}:{number}", known=known)


def _named(kind, prefix, gpus, device_type):
    names = ["CPU:0", *(f"GPU:{at}" for at in range(gpus))]
    return [kind(f"{prefix}:{name}", name[:3]) for name in names if device_type in (None, name[:3])]


_number = lambda name: int(name.rpartition(":")[2])
is_built_with_cuda = lambda: bool(start.get("libraries", {}).get("cuda"))


def tell(level, place, text):
    """Write a line of TensorFlow's C++ part."""
    if "IWE".index(level) >= int(os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")):
        now = datetime.datetime.now()
        print(f"{now:%Y-%m-%d %H:%M:%S.%f}: {level} {place}] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def device(name):
    config.scopes.append(name)
    try:
        yield
    finally:
        config.scopes.pop()


config = Config()
test = types.SimpleNamespace(
    is_built_with_cuda=is_built_with_cuda, is_gpu_available=lambda: bool(config.open()),
    gpu_device_name=lambda: "/device:GPU:0" if config.open() else "",
)  # fmt: skip
