"""``nvidia-mig-parted``: brings the devices of a node to a named MIG configuration of a file, or says that they are.

The file's form, the order of the steps and what is said of them are those of NVIDIA's mig-parted.
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
from kubesim.gpu.smi import setters
from kubesim.gpu.smi.view import View

Say = Callable[[str, str], None]
"""Takes a level and a message."""
MOST_ORDERS = 120
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

    def has_modes(self) -> bool:
        """Whether MIG is on and off where the configuration wants it."""
        return all(
            device.mig_mode == part.enabled for part, device in self._walk() if self.board.product.mig or part.enabled
        )

    def is_applied(self) -> bool:
        """Whether every device is as the configuration wants it."""
        met = {device.index for part, device in self._walk() if not part.enabled or _cut(device) == part.wanted}
        return self.has_modes() and len(met) == len(self.board.devices)

    def apply_modes(self) -> None:
        """Switch MIG on and off, and reset devices that wait for it. Raises Failed."""
        if self.has_modes():
            return
        self.say("debug", "Applying MIG mode change...")
        for part, device in self._walk(loudly=True):
            if self._capable(part, device, "cannot set MIG mode on non MIG-capable GPU"):
                self._switch(part, device)
        if any(device.settings.mig_pending is not None for device in self.board.devices):
            self.say("debug", "At least one mode change pending")
            self.say("debug", "Resetting all GPUs...")
            text, status = setters.reset(View(self.board, self.at), [])
            self.say("error" if status else "debug", f"\n{text}")
            if status:
                raise Failed(f"error resetting all GPUs: exit status {status}")

    def apply(self) -> None:
        """Bring the devices to the configuration. Raises Failed."""
        self.say("debug", "Checking current MIG mode...")
        self.apply_modes()
        self.say("debug", "Checking current MIG device configuration...")
        if self.is_applied():
            return
        self.say("debug", "Applying MIG device configuration...")
        for part, device in self._walk(loudly=True):
            if not self._capable(part, device, "cannot set MIG config on non MIG-capable GPU"):
                continue
            if part.enabled != device.mig_mode:
                raise Failed(_DISABLED if part.enabled else _ENABLED)
            if not part.enabled:
                self.say("debug", "    Skipping MIG config -- MIG disabled")
                continue
            self.say("debug", f"    Updating MIG config: {_shown(part.wanted)}")
            if _cut(device) == part.wanted:
                self.say("debug", "    Skipping -- already set to desired value")
                continue
            self._create(device, part.wanted)

    def _walk(self, *, loudly: bool = False) -> Iterator[tuple[Part, Device]]:
        for part in self.parts:
            if loudly:
                which = "all" if part.devices is None else f"[{' '.join(map(str, part.devices))}]"
                only = f"device-filter=[{' '.join(part.filters)}], " if part.filters else ""
                self.say("debug", f"Walking MigConfig for ({only}devices={which})")
            for device in self.board.devices:
                if part.meets(device):
                    if loudly:
                        self.say("debug", f"  GPU {device.index}: 0x{device.product.pci['device']}")
                    yield part, device

    def _capable(self, part: Part, device: Device, refusal: str) -> bool:
        capable = bool(device.product.mig)
        self.say("debug", f"    MIG capable: {str(capable).lower()}\n")
        if not capable and part.enabled and part.devices is not None:
            raise Failed(refusal)
        if not capable:
            self.say("debug", "    Skipping -- non MIG-capable GPU")
        return capable

    def _switch(self, part: Part, device: Device) -> None:
        self.say("debug", f"    Current MIG mode: {_mode(device.mig_mode)}")
        if device.mig_mode:
            self.say("debug", "    Clearing existing MIG configuration")
            self._clear(device, "error clearing existing MIG configurations")
        self.say("debug", f"    Updating MIG mode: {_mode(part.enabled)}")
        try:
            self.board.set_mig(device.index, part.enabled, self.at)
        except MigError as error:
            if device.settings.mig_pending is not part.enabled:
                raise Failed(f"error setting MIG mode: error setting Mig mode: {error}") from error
        pending = device.settings.mig_pending is not None
        self.say("debug", f"    Mode change pending: {str(pending).lower()}")

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
        for order in islice(permutations(kinds), MOST_ORDERS):
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


_DISABLED = "unable to apply MIG config with MIG mode disabled"
_ENABLED = "MIG mode is currently enabled, but the configuration specifies it should be disabled"


def _cut(device: Device) -> Counter[str]:
    return Counter(item.profile.name for item in device.instances)


def _mode(on: bool) -> str:
    return "Enabled" if on else "Disabled"


def _shown(wanted: Counter[str]) -> str:
    return "map[" + " ".join(f"{name}:{count}" for name, count in sorted(wanted.items())) + "]"
