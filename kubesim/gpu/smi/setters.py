"""What nvidia-smi changes: power limit, modes, resets; each with the driver's refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesim.gpu.board import NoReset
from kubesim.gpu.smi.values import enabled
from kubesim.gpu.smi.view import Seen, View, chosen, texts

INVALID, NO_PERMISSION, RESET_FAILED = 2, 4, 255
EARLY = "Terminating early due to previous errors.\n"
DONE = "All done.\n"
SWITCH = {"0": False, "DISABLED": False, "1": True, "ENABLED": True}


class Refused(Exception):
    """The driver does not do it: what it prints, and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


Do = Callable[[View, Seen, str], str]


@dataclass(frozen=True, slots=True)
class Setter:
    """One thing that can be set: how, and what is said to who may not (``{}``: the device's address)."""

    do: Do
    forbidden: str
    warns: bool = False
    """Whether it says that nothing stays set without persistence mode."""


def run(view: View, name: str, value: str, only: list[str]) -> tuple[str, int]:
    """Set one thing of each device that is named; returns what is printed and the exit status. Raises NoDevices."""
    setter, out = SETTERS[name], ""
    for seen in chosen(view, only):
        address = seen.device.pci_address
        if view.owner:
            return out + setter.forbidden.format(address, word=_switched(value)) + "\n" + EARLY, NO_PERMISSION
        try:
            out += setter.do(view, seen, value)
        except Refused as error:
            return f"{out}{error}\n{EARLY}", error.status
        if setter.warns and not seen.device.settings.persistence:
            out += texts()["forgetful"].format(address)
    return out + DONE, 0


def reset(view: View, only: list[str]) -> tuple[str, int]:
    """Reset devices; those in use stay as they are."""
    if view.owner:
        return "GPU Reset couldn't run because of insufficient permissions.\n", NO_PERMISSION
    out, failed, used = "", "", 0
    for seen in [item for item in view.all() if not only or {str(item.number), item.device.uuid} & set(only)]:
        try:
            view.board.reset(seen.device.index, view.at)
        except NoReset as error:
            failed += f"  GPU {seen.device.pci_address}: {error}\n"
            used += not seen.device.trouble.lost
        else:
            out += f"GPU {seen.device.pci_address} was successfully reset.\n"
    if not failed:
        return out + DONE, 0
    many = (f"{used} devices are", "these devices") if used > 1 else ("1 device is", "this device")
    return f"{out}The following GPUs could not be reset:\n{failed}" + (
        texts()["in_use"].format(*many) if used else ""
    ), RESET_FAILED


def _switched(value: str) -> str:
    return "enable" if SWITCH.get(value.upper()) else "disable"


def _switch(value: str) -> bool:
    if value.upper() not in SWITCH:
        raise Refused(f"Invalid value: {value}", INVALID)
    return SWITCH[value.upper()]


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError as error:
        raise Refused(f"Invalid value: {value}", INVALID) from error


def _persistence(view: View, seen: Seen, value: str) -> str:
    on, address = _switch(value), seen.device.pci_address
    if seen.device.settings.persistence == on:
        return f"Persistence mode is already {enabled(on)} for GPU {address}.\n"
    seen.device.set(view.at, persistence=on)
    return f"{enabled(on)} persistence mode for GPU {address}.\n"


def _power(view: View, seen: Seen, value: str) -> str:
    wanted, power, address = _number(value), seen.device.product.power, seen.device.pci_address
    if not power["least"] <= wanted <= power["limit"]:
        raise Refused(
            f"Provided power limit {wanted:.2f} W is not a valid power limit which should be between "
            f"{power['least']:.2f} W and {power['limit']:.2f} W for GPU {address}",
            INVALID,
        )
    before = seen.device.power_limit
    seen.device.set(view.at, power_limit=wanted)
    return f"Power limit for GPU {address} was set to {wanted:.2f} W from {before:.2f} W.\n"


def _mig(view: View, seen: Seen, value: str) -> str:
    """Leave MIG mode off: simulated devices are not cut, and say it as those say it that cannot be."""
    on, address = _switch(value), seen.device.pci_address
    if on or not seen.device.product.mig:
        head = f"Unable to {'enable' if on else 'disable'} MIG Mode for GPU {address}: Not Supported"
        return f"{head}\nTreating as warning and moving on.\n"
    return f"Disabled MIG Mode for GPU {address}\n"


SETTERS: dict[str, Setter] = {
    "persistence-mode": Setter(_persistence, "Unable to set persistence mode for GPU {}: Insufficient Permissions"),
    "power-limit": Setter(
        _power, "Failed to set power management limit for GPU {}: Insufficient Permissions", warns=True
    ),
    "multi-instance-gpu": Setter(_mig, "Unable to {word} MIG Mode for GPU {}: Insufficient Permissions"),
}
"""By the long name of the option."""
