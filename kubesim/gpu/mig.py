"""MIG: cutting a device into GPU instances, with NVIDIA's sizes and places."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kubesim.gpu.products import MigProfile, Product

COMPUTE_SLICES = 7
MEMORY_SLICES = 8
_STARTS = {1: range(7), 2: range(0, 6, 2), 3: range(4, -1, -4), 4: range(1), 7: range(1)}
"""Compute slices -> the memory slices where an instance may begin, in the driver's order."""
_WIDE_STARTS = range(0, 8, 2)
"""The same of a single compute slice with twice the memory."""
_IDS = {7: (0, 1), 4: (1, 1), 3: (1, 4), 2: (3, 2), 1: (7, 1)}
"""Compute slices -> the id of the instance that begins at 0, and the memory slices between two ids."""

_MULTIPROCESSORS = {
    "ampere": {1: 14, 2: 28, 3: 42, 4: 56, 7: 98},
    "hopper": {1: 16, 2: 32, 3: 60, 4: 64, 7: 132},
    "blackwell": {1: 18, 2: 36, 3: 70, 4: 74, 7: 148},
}
BAR1_MIB = {"turing": 256, "ada-lovelace": 32768, "blackwell": 262144}
"""MiB of the aperture through which the CPU sees a device's memory, 128 GiB where it is not named."""
CUT_BAR1 = 0.37749
"""The share of it that instances get, all eight memory slices together."""


class MigError(Exception):
    """An instance cannot be made or removed; the message is the driver's."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One GPU instance with its one compute instance; ``start`` counts memory slices."""

    id: int
    profile: MigProfile
    start: int
    size: int
    uuid: str

    @property
    def places(self) -> frozenset[int]:
        """The memory slices it covers."""
        return frozenset(range(self.start, self.start + self.size))

    @property
    def own_mib(self) -> int:
        """The MiB that the driver keeps in it."""
        return round(8.6 * self.profile.slices)

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        where = {"start": self.start, "size": self.size}
        return {"id": self.id, "profile": self.profile.name, **where, "uuid": self.uuid}

    @classmethod
    def load(cls, product: Product, saved: dict[str, Any]) -> Instance:
        """Rebuild from ``dump``, after a journey through JSON."""
        return cls(**{**saved, "profile": product.mig[saved["profile"]]})


def memory_slices(product: Product, profile: MigProfile) -> int:
    """Return how many of the eight memory slices an instance of a profile takes."""
    whole = max(item.memory_gib for item in product.mig.values())
    return max(1, round(profile.memory_gib / (whole / MEMORY_SLICES)))


def room(product: Product, instances: tuple[Instance, ...], profile: MigProfile) -> list[int]:
    """Return the places where an instance of ``profile`` still fits."""
    of_kind = sum(item.profile == profile for item in instances)
    spent = sum(item.profile.slices for item in instances)
    if of_kind >= profile.most or spent + profile.slices > COMPUTE_SLICES:
        return []
    size = memory_slices(product, profile)
    taken = frozenset[int]().union(*(item.places for item in instances))
    starts = _WIDE_STARTS if profile.slices == 1 and size == 2 else _STARTS[profile.slices]
    return [start for start in starts if not taken & set(range(start, start + size))]


def remaining(product: Product, instances: tuple[Instance, ...], profile: MigProfile) -> int:
    """Return how many more instances of ``profile`` could be made."""
    count = 0
    while places := room(product, instances, profile):
        instances = (*instances, _placed(product, instances, profile, places[0], "probe"))
        count += 1
    return count


def create(product: Product, instances: tuple[Instance, ...], profile: MigProfile, seed: str) -> Instance:
    """Return a new instance beside ``instances``. Raises MigError where none fits."""
    places = room(product, instances, profile)
    if not places:
        raise MigError("Insufficient Resources")
    return _placed(product, instances, profile, places[0], seed)


def profile(product: Product, wanted: str) -> MigProfile:
    """Return a profile by name (``1g.10gb``, ``MIG 1g.10gb``) or by number. Raises MigError."""
    name = wanted.removeprefix("MIG ").strip()
    for item in product.mig.values():
        if name in (item.name, str(item.id)):
            return item
    raise MigError("Invalid Argument")


def _placed(product: Product, instances: tuple[Instance, ...], wanted: MigProfile, start: int, seed: str) -> Instance:
    first, step = _IDS[wanted.slices]
    number = first + start // step
    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{number}/{wanted.name}/{len(instances)}")
    return Instance(number, wanted, start, memory_slices(product, wanted), f"MIG-{name}")


def multiprocessors(product: Product, slices: int) -> int:
    """Return how many streaming multiprocessors an instance of so many compute slices has."""
    return _MULTIPROCESSORS[product.family][slices]


def bar1_mib(product: Product) -> int:
    """Return the size of the aperture through which the CPU sees a device's memory."""
    return 65536 if product.key == "A100-40GB" else BAR1_MIB.get(product.family, 131072)


def apertures(product: Product, item: Instance) -> int:
    """Return what an instance has of it, in MiB."""
    return int(bar1_mib(product) * CUT_BAR1 / MEMORY_SLICES * item.size)


def jpegs(product: Product, profile: MigProfile) -> int:
    """Return how many JPEG engines an instance has; an Ampere has but one in all."""
    return profile.ofas if product.family == "ampere" else profile.decoders
