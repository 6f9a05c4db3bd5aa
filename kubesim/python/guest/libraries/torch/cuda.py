"""torch.cuda: what the driver says of the container's devices."""

import types
import warnings

from machine import ask

from torch import version

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
NOT_READY = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
    "that might have already set an error? Error 802: system not yet initialized"
)
nccl = types.SimpleNamespace(version=lambda: version.numbers("nccl"))


def device_count():
    found = ask("cuda_devices")
    if not found["usable"]:
        warnings.warn(
            f"CUDA initialization: {NOT_READY} (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)",
            stacklevel=2,
        )
    return len(found["devices"]) if found["usable"] else 0


def is_available():
    return device_count() > 0


def _device(index):
    found = ask("cuda_devices")
    if not found["usable"] or not found["devices"]:
        raise RuntimeError(NO_DRIVER if found["usable"] else NOT_READY)
    return found["devices"][index or 0]


def current_device():
    return _device(0) and 0


def get_device_name(device=None):
    return _device(device)[0]


def get_device_capability(device=None):
    return tuple(_device(device)[1])
