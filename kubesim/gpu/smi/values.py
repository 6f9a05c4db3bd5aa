"""Properties of ``nvidia-smi --query-gpu`` that follow from more than one thing."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from kubesim.gpu.products import Product, driver
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

NOT_SUPPORTED = "[N/A]"
ECC_OBJECTS = {"turing": "5.0", "hopper": "7.16", "blackwell": "7.16"}
STEPPINGS = {"hopper": "885", "blackwell": "886"}
MODULES = (7, 5, 6, 8, 1, 3, 4, 2)
"""The sockets of a board of eight, in the order of their PCI addresses."""
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
Getter = Callable[[Seen, View], Any]
_BITS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
}  # fmt: skip


def _image(product: Product) -> str:
    """Return the version of a product's infoROM image."""
    board, variant = product.part.split("-")[1:3]
    return f"{board[1:]}.{variant}.00.05"


def _part(product: Product) -> str:
    """Return the number of a product's chip."""
    return f"{product.pci['device'][:4]}-{STEPPINGS.get(product.family, '895')}-A1"


def _recovery(seen: Seen) -> str:
    """Return the word for what would make a device well again."""
    if seen.device.trouble.stalled:
        return "Reboot"
    return "Reset" if seen.device.trouble.reset_required or seen.device.state.remap.pending else "None"


def _banks(seen: Seen) -> dict[str, int]:
    """Return how many banks of memory have how many of their spare rows left."""
    remap = seen.device.state.remap
    used = min(remap.corrected + remap.uncorrected, 8)
    none = int(remap.failed)
    whole = seen.device.product.banks - max(used, none)
    return {"max": whole, "high": max(used - none, 0), "partial": 0, "low": 0, "none": none}


def _reasons(seen: Seen) -> frozenset[str]:
    """Return the reasons that hold the clocks down."""
    found = seen.reading.throttle
    return found | {"hw_slowdown"} if found & {"hw_thermal_slowdown", "hw_power_brake_slowdown"} else found


def enabled(value: bool) -> str:
    """Return the word for a switch."""
    return "Enabled" if value else "Disabled"


FORMS: dict[str, Callable[[object], object]] = {
    "": lambda value: value,
    "enabled": lambda value: enabled(bool(value)),
    "yes_or_no": lambda value: "Yes" if value else "No",
    "hex": lambda value: f"0x{value}",
    "watts": lambda value: f"{value:.2f}",
}
"""The forms in which a value is told."""


_BAR1_MIB = {"turing": 256, "ada-lovelace": 32768, "blackwell": 262144}
"""MiB of the aperture through which the CPU sees a device's memory, 128 GiB where it is not named."""


def bar1_mib(product: Product) -> int:
    """Return the size of that aperture."""
    return 65536 if product.key == "A100-40GB" else _BAR1_MIB.get(product.family, 131072)


def remaps(seen: Seen) -> bool:
    """Whether a device tells of remapped rows: some products retire pages instead."""
    return seen.device.product.family != "turing"


CONDITIONS: dict[str, Callable[[Seen], bool]] = {
    "": lambda seen: True,
    "remaps": remaps,
    "retires": lambda seen: seen.device.product.family == "turing",
}
"""Conditions under which a device tells of something at all."""


def _link(seen: Seen) -> tuple[int, int]:
    """Return the generation and the width of a PCIe link now."""
    pci = seen.device.product.pci
    return seen.device.trouble.narrow or (pci["generation"], pci["width"])


def _mode(word: str) -> str:
    """Return a MIG mode, for a product that has none too."""
    return NOT_SUPPORTED if word == NOT_AVAILABLE else word


def _held(seen: Seen, view: View, cause: str) -> int:
    """Return for how many microseconds something has lasted."""
    state = seen.reading.state
    return round((view.at - state.since).total_seconds() * 1e6) if getattr(state.trouble, cause) else 0


def _active(name: str) -> Getter:
    return lambda seen, view: "Active" if name in _reasons(seen) else "Not Active"


def _fabric(value: str, before: str) -> Getter:
    """Return what is told of the fabric, ``before`` a fabric manager has configured it."""

    def get(seen: Seen, view: View) -> str:
        if not seen.device.product.nvlinks or seen.device.product.family == "ampere":
            return NOT_AVAILABLE
        return value if view.board.fabric else before

    return get


def _health(seen: Seen, view: View) -> str:
    """Return the word of a Blackwell for its fabric's health; others have none."""
    if seen.device.product.family != "blackwell":
        return NOT_AVAILABLE
    return "Unhealthy" if seen.device.trouble.links_down else "Healthy"


def _bank(name: str) -> Getter:
    return lambda seen, view: _banks(seen)[name] if seen.device.product.banks else NOT_SUPPORTED


def _address(place: int) -> Getter:
    return lambda seen, view: "0x" + seen.device.bus.split(":")[place].upper()


def _board_id(seen: Seen, view: View) -> str:
    _, bus, number = seen.device.bus.split(":")
    return f"0x{int(bus, 16) << 8 | int(number, 16):x}"


def _limits(seen: Seen) -> dict[str, int]:
    return dict(seen.device.product.temperature)


def _of_memory(seen: Seen, text: str) -> str:
    """Return something about the temperature of the memory, which has no sensor in some products."""
    return text if _limits(seen)["memory"] else NOT_AVAILABLE


GETTERS: dict[str, Getter] = {
    "timestamp": lambda s, v: v.at.strftime("%Y/%m/%d %H:%M:%S.") + f"{v.at.microsecond // 1000:03}",
    "driver_version": lambda s, v: driver().version,
    "count": lambda s, v: len(v.present()),
    "compute_mode": lambda s, v: "Default",
    "inforom.img": lambda s, v: _image(s.device.product),
    "inforom.ecc": lambda s, v: ECC_OBJECTS.get(s.device.product.family, "6.16"),
    "pci.domain": _address(0),
    "pci.bus": _address(1),
    "pci.device": _address(2),
    "pcie.link.gen.current": lambda s, v: _link(s)[0],
    "pcie.link.gen.gpucurrent": lambda s, v: _link(s)[0],
    "pcie.link.width.current": lambda s, v: _link(s)[1],
    "clocks_event_reasons.active": lambda s, v: f"0x{sum(bit for n, bit in _BITS.items() if n in _reasons(s)):016X}",
    **{f"clocks_event_reasons.{name}": _active(name) for name in _BITS},
    "clocks_event_reasons_counters.hw_thermal_slowdown": lambda s, v: _held(s, v, "hot"),
    "clocks_event_reasons_counters.hw_power_brake_slowdown": lambda s, v: _held(s, v, "power_brake"),
    **{f"remapped_rows.histogram.{name}": _bank(name) for name in ("max", "high", "partial", "low", "none")},
    "temperature.gpu.tlimit": lambda s, v: (
        _limits(s)["slowdown"] - s.reading.temperature
        if s.device.product.family not in ("turing", "ampere")
        else NOT_AVAILABLE
    ),
    "temperature.memory": lambda s, v: s.reading.memory_temperature or NOT_AVAILABLE,
    "mig.mode.current": lambda s, v: _mode(s.mig),
    "mig.mode.pending": lambda s, v: _mode(s.mig),
    "gpu_recovery_action": lambda s, v: _recovery(s),
    "fabric.state": _fabric("Completed", "In Progress"),
    "fabric.status": _fabric("Success", NOT_AVAILABLE),
    "fabric.cliqueId": _fabric("0", NOT_AVAILABLE),
    "fabric.clusterUuid": _fabric(NO_CLUSTER, NOT_AVAILABLE),
    "fabric.health.summary": _health,
    "platform.module_id": lambda s, v: MODULES[s.device.index % len(MODULES)] if s.device.product.nvlinks else 1,
    # What the report alone tells.
    "pdi": lambda s, v: f"0x{zlib.crc32(s.device.uuid.encode()):08x}{zlib.crc32(s.device.serial.encode()):08x}",
    "board_id": _board_id,
    "gpu_part": lambda s, v: _part(s.device.product),
    "pcie_tx": lambda s, v: f"{s.reading.pcie_tx / 1000:.0f}",
    "pcie_rx": lambda s, v: f"{s.reading.pcie_rx / 1000:.0f}",
    "sparse_mode": lambda s, v: "Disabled" if s.device.product.family == "hopper" else NOT_AVAILABLE,
    "bar1.total": lambda s, v: bar1_mib(s.device.product),
    "bar1.free": lambda s, v: bar1_mib(s.device.product) - 1,
    "temperature.shutdown.tlimit": lambda s, v: _limits(s)["slowdown"] - _limits(s)["shutdown"] - 5,
    "temperature.memory.tlimit": lambda s, v: _of_memory(s, "0"),
    "temperature.memory.hottest": lambda s, v: _of_memory(s, "95"),
    # What dmon alone tells.
    "dmon.mtemp": lambda s, v: s.reading.memory_temperature or "-",
    "dmon.pviol": lambda s, v: 100 * ("sw_power_cap" in s.reading.throttle),
    "dmon.tviol": lambda s, v: int("hw_thermal_slowdown" in s.reading.throttle),
    "dmon.bar1": lambda s, v: min(1, bar1_mib(s.device.product)),
    "dmon.rxpci": lambda s, v: s.reading.pcie_rx / 1e6,
    "dmon.txpci": lambda s, v: s.reading.pcie_tx / 1e6,
}
