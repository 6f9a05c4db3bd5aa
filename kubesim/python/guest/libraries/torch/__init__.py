"""PyTorch, as far as it asks the driver for the container's devices."""

from machine import ask

from torch import backends, cuda, distributed, version

__version__ = "2.5.1+cu124"
__all__ = ["ask", "backends", "cuda", "distributed", "version"]
