"""``nvidia-mig-parted``: brings the devices of a node to a named MIG configuration of a file.

The file's form and what is said of errors are those of NVIDIA's mig-parted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice, permutations
from typing import Any

import yaml

from kubesim import data
from kubesim.gpu.board import Board
from kubesim.gpu.devices import Device
from kubesim.gpu.mig import MigError

Say = Callable[[str, str], None]
"""Takes a level and a message."""
MAX_ORDERS = 120
NOT_APPLIED = "assertion failure: selected configuration not currently applied"


class Failed(Exception):
    """It cannot be done; the message is mig-parted's."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a configuration wants of some devices."""

    filters: tuple[str, ...]
    devices: tuple[int, ...] | None
    """Their numbers; None for all."""
    enabled: bool
    wanted: Counter[str]

    def meets(self, device: Device) -> bool:
        """Whether it speaks of a device."""
        named = self.devices is None or device.index in self.devices
        return named and (not self.filters or f"0x{device.product.pci['device']}" in self.filters)


def select(text: str | None, path: str, name: str) -> list[Part]:
    """Return a configuration of a file by its name; ``text`` is None where there is no file. Raises Failed."""
    if text is None:
        raise Failed(f"error parsing config file: read error: open {path}: no such file or directory")
    try:
        configs = _mig_configs(text)
        found = [_part(entry) for entry in configs[name]] if name in configs else None
    except (yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise Failed(f"error parsing config file: unmarshal error: {error}") from error
    if found is None:
        raise Failed(f"error selecting MIG config: selected mig-config not present: {name}")
    return found


@lru_cache(maxsize=16)
def _mig_configs(text: str) -> dict[str, Any]:
    """Return the configurations of a file. Every node reads it, in most clusters the same one, which a fork knows."""
    return dict(data.parse_sent(text)["mig-configs"])


def _part(entry: dict[str, Any]) -> Part:
    filters, devices = entry.get("device-filter") or (), entry["devices"]
    wanted = {str(profile): int(count) for profile, count in (entry.get("mig-devices") or {}).items()}
    return Part(
        (filters,) if isinstance(filters, str) else tuple(str(each) for each in filters),
        None if devices == "all" else tuple(int(each) for each in devices),
        bool(entry["mig-enabled"]),
        Counter(wanted),
    )


@dataclass(frozen=True, slots=True)
class Partition:
    """One configuration beside the devices of a node, at a moment."""

    board: Board
    parts: list[Part]
    at: datetime
    say: Say

    def is_applied(self) -> bool:
        """Whether every device is as the configuration wants it."""
        wanted = [*self._walk()]
        modes = all(device.mig_mode == part.enabled for part, device in wanted if device.product.mig or part.enabled)
        met = {device.index for part, device in wanted if not part.enabled or _cut(device) == part.wanted}
        return modes and len(met) == len(self.board.devices)

    def apply(self) -> None:
        """Switch MIG on and off, reset devices that wait for it, then cut them. Raises Failed."""
        for part, device in self._walk():
            if not device.product.mig and part.enabled and part.devices is not None:
                raise Failed("cannot set MIG mode on non MIG-capable GPU")
            if device.product.mig and device.mig_mode != part.enabled:
                self._switch(part, device)
        for device in self.board.devices:
            if device.settings.mig_pending is not None:
                self._reset(device)
        for part, device in self._walk():
            if device.product.mig and part.enabled and _cut(device) != part.wanted:
                self._create(device, part.wanted)

    def _walk(self) -> Iterator[tuple[Part, Device]]:
        return ((part, device) for part in self.parts for device in self.board.devices if part.meets(device))

    def _switch(self, part: Part, device: Device) -> None:
        self._clear(device, "error clearing existing MIG configurations")
        try:
            self.board.set_mig(device.index, part.enabled, self.at)
        except MigError as error:
            if device.settings.mig_pending is not part.enabled:
                raise Failed(f"error setting MIG mode: error setting Mig mode: {error}") from error

    def _reset(self, device: Device) -> None:
        try:
            self.board.reset(device.index, self.at)
        except MigError as error:
            raise Failed("error resetting all GPUs: exit status 255") from error

    def _clear(self, device: Device, head: str) -> None:
        for item in device.instances:
            try:
                self.board.destroy_instance(device.index, item.id, self.at)
            except MigError as error:
                profile = f"({item.profile.slices - 1}, 0)"
                raise Failed(
                    f"{head}: error walking gpu instances for '{device.index}': "
                    f"error destroying Compute instance for profile '{profile}': {error}"
                ) from error

    def _create(self, device: Device, wanted: Counter[str]) -> None:
        """Make the instances, the profiles in one order after the other until all find a place."""
        sizes = {name: profile.slices for name, profile in device.product.mig.items()}
        kinds = sorted(wanted, key=lambda name: -sizes.get(name, 0))
        for order in islice(permutations(kinds), MAX_ORDERS):
            self._clear(device, "error setting MIGConfig: error clearing MigConfig")
            try:
                for name in order:
                    self._make(device, name, wanted[name])
            except MigError as error:
                self.say("error", f"{error}")
            else:
                return
        self._clear(device, "error setting MIGConfig: error clearing MigConfig")
        raise Failed("error setting MIGConfig: error attempting multiple config orderings: all orderings failed")

    def _make(self, device: Device, name: str, count: int) -> None:
        if name not in device.product.mig:
            raise MigError(f'MIG profile "{name}" not found on this GPU')
        for _ in range(count):
            try:
                self.board.create_instance(device.index, name, self.at)
            except MigError as error:
                raise MigError(f"Error creating GPU instance for '{name}': {error}") from error


def _cut(device: Device) -> Counter[str]:
    return Counter(item.profile.name for item in device.instances)
