"""What is known of each GPU product: ``products.yaml`` as typed values."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from kubesim import data

H100_TFLOPS, H100_BANDWIDTH = 989.4, 3350
_read = data.beside(__file__, "products.yaml")


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver's version and the CUDA version it serves."""

    version: str
    cuda: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The cloud's machine type around the devices; memory in GiB."""

    name: str
    cpus: int
    memory_gib: int
    pool: str


@dataclass(frozen=True, slots=True)
class Product:
    """A GPU product; see ``products.yaml`` for the units."""

    key: str
    name: str
    label: str
    accelerator: str
    family: str
    compute: str
    architecture: str
    memory: int
    reserved: int
    multiprocessors: int
    tflops: dict[str, float]
    bandwidth: int
    power: dict[str, int]
    clocks: dict[str, list[int]]
    temperature: dict[str, Any]
    idle_state: str
    pci: dict[str, Any]
    vbios: str
    part: str
    nvlinks: int
    banks: int
    machine: Machine
    bus: tuple[str, ...]
    numa: tuple[str, ...]
    mig: bool = False
    """Whether it could be cut into instances, which simulated nodes never do."""

    @property
    def speed(self) -> float:
        """The speed of training a common model as a share of an H100's; not memory or compute alone bounds it."""
        return float((self.tflops["fp16"] / H100_TFLOPS) ** 0.5 * (self.bandwidth / H100_BANDWIDTH) ** 0.25)

    def numa_node(self, index: int, count: int) -> int:
        """Return the NUMA node of the ``index``-th of ``count`` devices: the first half on the first node."""
        return index * len(self.numa) // max(count, 1)


@cache
def driver() -> Driver:
    """Return the driver all simulated nodes run."""
    return Driver(**_read()["driver"])


@cache
def cpu_machine() -> Machine:
    """Return the machine type of nodes without GPUs."""
    return Machine(**_read()["cpu_machine"])


def machine_of(product: Product, gpus: int) -> Machine:
    """Return the machine type of a node with so many GPUs of a product."""
    return product.machine if gpus else cpu_machine()


@cache
def products() -> dict[str, Product]:
    """Return every product by its short name (``H100``)."""
    return {key: _product(key, entry) for key, entry in _read()["products"].items()}


def _product(key: str, entry: dict[str, Any]) -> Product:
    fixed = {"machine": Machine(**entry["machine"]), "bus": tuple(entry["bus"]), "numa": tuple(entry["numa"])}
    return Product(key=key, **{**entry, **fixed})


Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of work; ``loads.yaml`` has the units."""

    name: str
    util: Range
    memory_util: Range
    power: Range
    sm: Range
    tensor: Range
    dram: Range
    pcie: Range
    nvlink: Range
    period: float
    ramp: float
    memory: float = 0.0
    mib: int = 0

    def held(self, total_mib: int, elapsed_s: float) -> int:
        """Return the memory in MiB that it holds of ``total_mib``, ``elapsed_s`` after its start."""
        full = self.mib or self.memory * total_mib
        return int(full * warm(self, elapsed_s))

    def mean(self, span: Range) -> float:
        """Return the long mean of one of its ranges."""
        return (span[0] + span[1]) / 2


@cache
def loads() -> dict[str, Load]:
    """Return every load by name."""
    entries = data.table(__file__, "loads.yaml")
    return {name: _load(name, entry) for name, entry in entries.items()}


def _load(name: str, entry: dict[str, object]) -> Load:
    return Load(name=name, **{key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()})  # type: ignore[arg-type]


def warm(load: Load, elapsed_s: float) -> float:
    """Return how far it has come up: 0 at the start, 1 once ``ramp`` is over."""
    return min(max(elapsed_s / load.ramp, 0.0), 1.0) if load.ramp else 1.0


def swing(span: Range, elapsed_s: float, period_s: float, seed: str) -> float:
    """Return a value within ``span`` that wanders smoothly, a new direction every ``period_s``/4."""
    low, high = span
    if low == high:
        return low
    step = elapsed_s / (period_s / 4)
    index, part = math.floor(step), step % 1
    eased = part * part * (3 - 2 * part)
    return low + (high - low) * (_noise(seed, index) * (1 - eased) + _noise(seed, index + 1) * eased)


def _noise(seed: str, index: int) -> float:
    """Return a number of 0 to 1 that depends on nothing but seed and index."""
    return zlib.crc32(f"{seed}/{index}".encode()) / 0xFFFFFFFF
