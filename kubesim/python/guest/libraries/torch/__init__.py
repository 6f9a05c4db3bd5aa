"""PyTorch, as far as it asks the driver for the container's devices."""

from machine import ask

from torch import backends, cuda, distributed, version

__all__ = ["ask", "backends", "cuda", "distributed", "version"]


def __getattr__(name):
    if name == "__version__":
        return version.__version__
    raise AttributeError(f"module 'torch' has no attribute {name!r}")
