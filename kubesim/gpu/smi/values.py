"""What a device says for each property of ``nvidia-smi --query-gpu`` that is not always the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubesim.gpu.products import Product, driver
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

NOT_SUPPORTED = "[N/A]"
ECC_OBJECTS = {"turing": "5.0", "hopper": "7.16", "blackwell": "7.16"}
MODULES = (7, 5, 6, 8, 1, 3, 4, 2)
"""The sockets of a board of eight, in the order of their PCI addresses."""
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
Getter = Callable[[Seen, View], object]
_BITS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
}  # fmt: skip


def image(product: Product) -> str:
    """Return the version of a product's infoROM image."""
    board, variant = product.part.split("-")[1:3]
    return f"{board[1:]}.{variant}.00.05"


def fabric(product: Product) -> bool:
    """Whether switches join the NVLinks of a machine's devices, and a fabric manager looks after them."""
    return bool(product.nvlinks) and product.family != "ampere"


def stamp(at: datetime) -> str:
    """Return a moment as the queries print it."""
    return at.strftime("%Y/%m/%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"


def recovery(seen: Seen) -> str:
    """Return the word for what would make a device well again."""
    if seen.device.trouble.stalled:
        return "Reboot"
    return "Reset" if seen.device.trouble.reset_required or seen.device.state.remap.pending else "None"


def banks(seen: Seen) -> dict[str, int]:
    """Return how many banks of memory have how many of their spare rows left."""
    remap = seen.device.state.remap
    used = min(remap.corrected + remap.uncorrected, 8)
    none = int(remap.failed)
    whole = seen.device.product.banks - max(used, none)
    return {"max": whole, "high": max(used - none, 0), "partial": 0, "low": 0, "none": none}


def reasons(seen: Seen) -> frozenset[str]:
    """Return the reasons that hold the clocks down."""
    found = seen.reading.throttle
    return found | {"hw_slowdown"} if found & {"hw_thermal_slowdown", "hw_power_brake_slowdown"} else found


def yes(value: bool) -> str:
    """Return the word for a truth."""
    return "Yes" if value else "No"


def enabled(value: bool) -> str:
    """Return the word for a switch."""
    return "Enabled" if value else "Disabled"


def watts(value: float) -> str:
    """Return an amount as it is printed."""
    return f"{value:.2f}"


def link(seen: Seen) -> tuple[int, int]:
    """Return the generation and the width of a PCIe link now."""
    pci = seen.device.product.pci
    return seen.device.trouble.narrow or (pci["generation"], pci["width"])


def remaps(seen: Seen) -> bool:
    """Whether a device tells of remapped rows: it does not in MIG mode, and some products retire pages instead."""
    return seen.device.product.family != "turing" and not seen.device.mig_mode


def pending(seen: Seen) -> str:
    """Return the MIG mode after the next reset."""
    later = seen.device.settings.mig_pending
    return seen.mig if later is None else enabled(later)


def modes(word: str) -> str:
    """Return a MIG mode, for a product that has none too."""
    return NOT_SUPPORTED if word == NOT_AVAILABLE else word


def held(seen: Seen, view: View, cause: str) -> int:
    """Return for how many microseconds something has lasted."""
    state = seen.reading.state
    return round((view.at - state.since).total_seconds() * 1e6) if getattr(state.trouble, cause) else 0


def _clock(seen: Seen, place: int) -> int:
    chosen = seen.device.settings.applications
    return chosen[place] if chosen else seen.device.product.clocks["most"][1 - place]


def _active(name: str) -> Getter:
    return lambda seen, view: "Active" if name in reasons(seen) else "Not Active"


def _whole(get: Getter) -> Getter:
    """Let a getter speak only for devices that are not cut."""
    return lambda seen, view: NOT_SUPPORTED if seen.device.mig_mode else get(seen, view)


def _remap(get: Getter) -> Getter:
    return lambda seen, view: get(seen, view) if remaps(seen) else NOT_SUPPORTED


def _fabric(value: str, before: str) -> Getter:
    """Return what is told of the fabric, ``before`` a fabric manager has configured it."""

    def get(seen: Seen, view: View) -> str:
        return (value if view.board.fabric else before) if fabric(seen.device.product) else NOT_AVAILABLE

    return get


def _retired(get: Getter) -> Getter:
    return lambda seen, view: get(seen, view) if seen.device.product.family == "turing" else NOT_SUPPORTED


def _bank(name: str) -> Getter:
    return lambda seen, view: banks(seen)[name] if seen.device.product.banks else NOT_SUPPORTED


def _ecc(kind: str, age: int) -> Getter:
    return lambda seen, view: getattr(seen.device.state.ecc, kind)[age]


GETTERS: dict[str, Getter] = {
    "timestamp": lambda s, v: stamp(v.at),
    "driver_version": lambda s, v: driver().version,
    "count": lambda s, v: len(v.present()),
    "name": lambda s, v: s.device.product.name,
    "serial": lambda s, v: s.device.serial,
    "uuid": lambda s, v: s.device.uuid,
    "index": lambda s, v: s.number,
    "vbios_version": lambda s, v: s.device.product.vbios,
    "compute_cap": lambda s, v: s.device.product.compute,
    "persistence_mode": lambda s, v: enabled(s.device.settings.persistence),
    "compute_mode": lambda s, v: s.device.settings.compute_mode.replace("E. Process", "Exclusive_Process"),
    "accounting.mode": lambda s, v: enabled(s.device.settings.accounting),
    "inforom.img": lambda s, v: image(s.device.product),
    "inforom.ecc": lambda s, v: ECC_OBJECTS.get(s.device.product.family, "6.16"),
    "pci.bus_id": lambda s, v: s.device.pci_address,
    "pci.domain": lambda s, v: "0x" + s.device.bus.split(":")[0],
    "pci.bus": lambda s, v: "0x" + s.device.bus.split(":")[1].upper(),
    "pci.device": lambda s, v: "0x" + s.device.bus.split(":")[2].upper(),
    "pci.device_id": lambda s, v: "0x" + s.device.product.pci["device"],
    "pci.sub_device_id": lambda s, v: "0x" + s.device.product.pci["subsystem"],
    "pcie.link.gen.current": lambda s, v: link(s)[0],
    "pcie.link.gen.gpucurrent": lambda s, v: link(s)[0],
    "pcie.link.gen.max": lambda s, v: s.device.product.pci["generation"],
    "pcie.link.gen.gpumax": lambda s, v: s.device.product.pci["generation"],
    "pcie.link.width.current": lambda s, v: link(s)[1],
    "pcie.link.width.max": lambda s, v: s.device.product.pci["width"],
    "pstate": lambda s, v: s.reading.performance,
    "clocks_event_reasons.active": lambda s, v: f"0x{sum(bit for n, bit in _BITS.items() if n in reasons(s)):016X}",
    **{f"clocks_event_reasons.{name}": _active(name) for name in _BITS},
    "clocks_event_reasons_counters.hw_thermal_slowdown": lambda s, v: held(s, v, "hot"),
    "clocks_event_reasons_counters.hw_power_brake_slowdown": lambda s, v: held(s, v, "power_brake"),
    "memory.total": lambda s, v: s.device.product.memory,
    "memory.reserved": lambda s, v: s.reading.reserved,
    "memory.used": lambda s, v: s.reading.used,
    "memory.free": lambda s, v: s.reading.free,
    "utilization.gpu": _whole(lambda s, v: s.reading.util),
    "utilization.memory": _whole(lambda s, v: s.reading.memory_util),
    **{f"utilization.{name}": _whole(lambda s, v: 0) for name in ("encoder", "decoder", "jpeg", "ofa")},
    **{
        f"ecc.errors.{kind}.{age}.{place}": _ecc(kind, number)
        for kind in ("corrected", "uncorrected")
        for number, age in enumerate(("volatile", "aggregate"))
        for place in ("device_memory", "dram", "total")
    },
    "retired_pages.single_bit_ecc.count": _retired(lambda s, v: s.device.state.remap.corrected),
    "retired_pages.double_bit.count": _retired(lambda s, v: s.device.state.remap.uncorrected),
    "retired_pages.pending": _retired(lambda s, v: yes(s.device.state.remap.pending)),
    "remapped_rows.correctable": _remap(lambda s, v: s.device.state.remap.corrected),
    "remapped_rows.uncorrectable": _remap(lambda s, v: s.device.state.remap.uncorrected),
    "remapped_rows.pending": _remap(lambda s, v: yes(s.device.state.remap.pending)),
    "remapped_rows.failure": _remap(lambda s, v: yes(s.device.state.remap.failed)),
    **{f"remapped_rows.histogram.{name}": _bank(name) for name in ("max", "high", "partial", "low", "none")},
    "temperature.gpu": lambda s, v: s.reading.temperature,
    "temperature.gpu.tlimit": lambda s, v: (
        s.device.product.temperature["slowdown"] - s.reading.temperature
        if s.device.product.family not in ("turing", "ampere")
        else NOT_AVAILABLE
    ),
    "temperature.memory": lambda s, v: s.reading.memory_temperature or NOT_AVAILABLE,
    "power.draw": lambda s, v: watts(s.reading.power),
    "power.draw.average": lambda s, v: watts(s.reading.power),
    "power.draw.instant": lambda s, v: watts(s.reading.power),
    "power.limit": lambda s, v: watts(s.device.power_limit),
    "enforced.power.limit": lambda s, v: watts(s.device.power_limit),
    "power.default_limit": lambda s, v: watts(s.device.product.power["limit"]),
    "power.min_limit": lambda s, v: watts(s.device.product.power["least"]),
    "power.max_limit": lambda s, v: watts(s.device.product.power["limit"]),
    "clocks.current.graphics": lambda s, v: s.reading.sm_clock,
    "clocks.current.sm": lambda s, v: s.reading.sm_clock,
    "clocks.current.memory": lambda s, v: s.reading.mem_clock,
    "clocks.current.video": lambda s, v: s.reading.video_clock,
    "clocks.applications.graphics": lambda s, v: _clock(s, 1),
    "clocks.applications.memory": lambda s, v: _clock(s, 0),
    "clocks.default_applications.graphics": lambda s, v: s.device.product.clocks["most"][0],
    "clocks.default_applications.memory": lambda s, v: s.device.product.clocks["most"][1],
    "clocks.max.graphics": lambda s, v: s.device.product.clocks["most"][0],
    "clocks.max.sm": lambda s, v: s.device.product.clocks["most"][0],
    "clocks.max.memory": lambda s, v: s.device.product.clocks["most"][1],
    "mig.mode.current": lambda s, v: modes(s.mig),
    "mig.mode.pending": lambda s, v: modes(pending(s)),
    "gpu_recovery_action": lambda s, v: recovery(s),
    "fabric.state": _fabric("Completed", "In Progress"),
    "fabric.status": _fabric("Success", NOT_AVAILABLE),
    "fabric.cliqueId": _fabric("0", NOT_AVAILABLE),
    "fabric.clusterUuid": _fabric(NO_CLUSTER, NOT_AVAILABLE),
    "platform.module_id": lambda s, v: MODULES[s.device.index % len(MODULES)] if s.device.product.nvlinks else 1,
}
