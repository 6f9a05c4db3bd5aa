"""``nvidia-smi --query-gpu`` and its relatives: named fields as comma-separated values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from kubesim.gpu.devices import Task
from kubesim.gpu.products import driver
from kubesim.gpu.smi.view import NOT_AVAILABLE, Seen, View

NOT_SUPPORTED = "[N/A]"
_BIT_REASONS = {"gpu_idle": 0x1, "sw_power_cap": 0x4, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80}


class UnknownField(Exception):
    """A field that nvidia-smi does not know; the message is its own."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``--format=csv,noheader,nounits`` says."""

    header: bool = True
    units: bool = True


Getter = Callable[[Seen, View], object]


@dataclass(frozen=True, slots=True)
class Field:
    """How a field is read, and the unit in its heading."""

    get: Getter
    unit: str = ""


def _number(value: float) -> str:
    return f"{value:.2f}"


def _active(name: str) -> Getter:
    return lambda seen, view: "Active" if name in seen.reading.throttle else "Not Active"


def _ecc(kind: str, age: int) -> Getter:
    return lambda seen, view: getattr(seen.device.state.ecc, kind)[age]


def _reasons(seen: Seen, view: View) -> str:
    return f"0x{sum(bit for name, bit in _BIT_REASONS.items() if name in seen.reading.throttle):016X}"


def _yes(value: bool) -> str:
    return "Yes" if value else "No"


def _link(seen: Seen) -> tuple[int, int]:
    pci = seen.device.product.pci
    return seen.device.trouble.narrow or (pci["generation"], pci["width"])


FIELDS: dict[str, Field] = {
    "timestamp": Field(lambda s, v: _stamp(v.at)),
    "driver_version": Field(lambda s, v: driver().version),
    "count": Field(lambda s, v: len(v.present())),
    "name": Field(lambda s, v: s.device.product.name),
    "serial": Field(lambda s, v: s.device.serial),
    "uuid": Field(lambda s, v: s.device.uuid),
    "index": Field(lambda s, v: s.number),
    "vbios_version": Field(lambda s, v: s.device.product.vbios),
    "compute_cap": Field(lambda s, v: s.device.product.compute),
    "display_mode": Field(lambda s, v: "Disabled"),
    "display_active": Field(lambda s, v: "Disabled"),
    "persistence_mode": Field(lambda s, v: "Enabled" if s.device.persistence else "Disabled"),
    "compute_mode": Field(lambda s, v: s.device.compute_mode),
    "accounting.mode": Field(lambda s, v: "Disabled"),
    "driver_model.current": Field(lambda s, v: NOT_SUPPORTED),
    "pci.bus_id": Field(lambda s, v: s.device.pci_address),
    "pci.domain": Field(lambda s, v: "0x" + s.device.bus.split(":")[0]),
    "pci.bus": Field(lambda s, v: "0x" + s.device.bus.split(":")[1].upper()),
    "pci.device": Field(lambda s, v: "0x" + s.device.bus.split(":")[2].upper()),
    "pci.device_id": Field(lambda s, v: "0x" + s.device.product.pci["device"]),
    "pci.sub_device_id": Field(lambda s, v: "0x" + s.device.product.pci["subsystem"]),
    "pcie.link.gen.current": Field(lambda s, v: _link(s)[0]),
    "pcie.link.gen.gpucurrent": Field(lambda s, v: _link(s)[0]),
    "pcie.link.gen.max": Field(lambda s, v: s.device.product.pci["generation"]),
    "pcie.link.gen.gpumax": Field(lambda s, v: s.device.product.pci["generation"]),
    "pcie.link.gen.hostmax": Field(lambda s, v: s.device.product.pci["generation"]),
    "pcie.link.width.current": Field(lambda s, v: _link(s)[1]),
    "pcie.link.width.max": Field(lambda s, v: s.device.product.pci["width"]),
    "fan.speed": Field(lambda s, v: NOT_SUPPORTED, "%"),
    "pstate": Field(lambda s, v: s.reading.performance),
    "clocks_event_reasons.supported": Field(lambda s, v: "0x00000000000001FF"),
    "clocks_event_reasons.active": Field(_reasons),
    "clocks_event_reasons.gpu_idle": Field(_active("gpu_idle")),
    "clocks_event_reasons.applications_clocks_setting": Field(_active("applications_clocks_setting")),
    "clocks_event_reasons.sw_power_cap": Field(_active("sw_power_cap")),
    "clocks_event_reasons.hw_slowdown": Field(
        lambda s, v: (
            "Active" if _BIT_REASONS.keys() & s.reading.throttle - {"gpu_idle", "sw_power_cap"} else "Not Active"
        )
    ),
    "clocks_event_reasons.hw_thermal_slowdown": Field(_active("hw_thermal_slowdown")),
    "clocks_event_reasons.hw_power_brake_slowdown": Field(_active("hw_power_brake_slowdown")),
    "clocks_event_reasons.sw_thermal_slowdown": Field(_active("sw_thermal_slowdown")),
    "clocks_event_reasons.sync_boost": Field(_active("sync_boost")),
    "memory.total": Field(lambda s, v: s.device.product.memory, "MiB"),
    "memory.reserved": Field(lambda s, v: s.reading.reserved, "MiB"),
    "memory.used": Field(lambda s, v: s.reading.used, "MiB"),
    "memory.free": Field(lambda s, v: s.reading.free, "MiB"),
    "utilization.gpu": Field(lambda s, v: NOT_SUPPORTED if s.device.mig_mode else s.reading.util, "%"),
    "utilization.memory": Field(lambda s, v: NOT_SUPPORTED if s.device.mig_mode else s.reading.memory_util, "%"),
    "utilization.encoder": Field(lambda s, v: 0, "%"),
    "utilization.decoder": Field(lambda s, v: 0, "%"),
    "encoder.stats.sessionCount": Field(lambda s, v: 0),
    "ecc.mode.current": Field(lambda s, v: "Enabled"),
    "ecc.mode.pending": Field(lambda s, v: "Enabled"),
    "ecc.errors.corrected.volatile.device_memory": Field(_ecc("corrected", 0)),
    "ecc.errors.corrected.volatile.total": Field(_ecc("corrected", 0)),
    "ecc.errors.corrected.aggregate.device_memory": Field(_ecc("corrected", 1)),
    "ecc.errors.corrected.aggregate.total": Field(_ecc("corrected", 1)),
    "ecc.errors.uncorrected.volatile.device_memory": Field(_ecc("uncorrected", 0)),
    "ecc.errors.uncorrected.volatile.total": Field(_ecc("uncorrected", 0)),
    "ecc.errors.uncorrected.aggregate.device_memory": Field(_ecc("uncorrected", 1)),
    "ecc.errors.uncorrected.aggregate.total": Field(_ecc("uncorrected", 1)),
    "retired_pages.single_bit_ecc.count": Field(lambda s, v: NOT_SUPPORTED),
    "retired_pages.double_bit.count": Field(lambda s, v: NOT_SUPPORTED),
    "retired_pages.pending": Field(lambda s, v: NOT_SUPPORTED),
    "remapped_rows.correctable": Field(lambda s, v: s.device.state.remap.corrected),
    "remapped_rows.uncorrectable": Field(lambda s, v: s.device.state.remap.uncorrected),
    "remapped_rows.pending": Field(lambda s, v: int(s.device.state.remap.pending)),
    "remapped_rows.failure": Field(lambda s, v: int(s.device.state.remap.failed)),
    "temperature.gpu": Field(lambda s, v: s.reading.temperature),
    "temperature.gpu.tlimit": Field(lambda s, v: s.device.product.temperature["slowdown"] - s.reading.temperature),
    "temperature.memory": Field(lambda s, v: s.reading.memory_temperature or NOT_AVAILABLE),
    "power.management": Field(lambda s, v: "Enabled"),
    "power.draw": Field(lambda s, v: _number(s.reading.power), "W"),
    "power.draw.average": Field(lambda s, v: _number(s.reading.power), "W"),
    "power.draw.instant": Field(lambda s, v: _number(s.reading.power), "W"),
    "power.limit": Field(lambda s, v: _number(s.device.product.power["limit"]), "W"),
    "enforced.power.limit": Field(lambda s, v: _number(s.device.product.power["limit"]), "W"),
    "power.default_limit": Field(lambda s, v: _number(s.device.product.power["limit"]), "W"),
    "power.min_limit": Field(lambda s, v: _number(s.device.product.power["least"]), "W"),
    "power.max_limit": Field(lambda s, v: _number(s.device.product.power["limit"]), "W"),
    "clocks.current.graphics": Field(lambda s, v: s.reading.sm_clock, "MHz"),
    "clocks.current.sm": Field(lambda s, v: s.reading.sm_clock, "MHz"),
    "clocks.current.memory": Field(lambda s, v: s.reading.mem_clock, "MHz"),
    "clocks.max.graphics": Field(lambda s, v: s.device.product.clocks["most"][0], "MHz"),
    "clocks.max.sm": Field(lambda s, v: s.device.product.clocks["most"][0], "MHz"),
    "clocks.max.memory": Field(lambda s, v: s.device.product.clocks["most"][1], "MHz"),
    "mig.mode.current": Field(lambda s, v: s.mig if s.mig != NOT_AVAILABLE else NOT_SUPPORTED),
    "mig.mode.pending": Field(lambda s, v: s.mig if s.mig != NOT_AVAILABLE else NOT_SUPPORTED),
    "gpu_recovery_action": Field(lambda s, v: recovery(s)),
}
ALIASES = {
    "gpu_name": "name", "gpu_uuid": "uuid", "gpu_serial": "serial", "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics", "clocks.sm": "clocks.current.sm", "clocks.mem": "clocks.current.memory",
    "clocks.max.gr": "clocks.max.graphics", "clocks.max.mem": "clocks.max.memory",
    "gpu_compute_mode": "compute_mode",
} | {name.replace("event", "throttle"): name for name in FIELDS if "event_reasons" in name}  # fmt: skip
APP_FIELDS: dict[str, Callable[[Seen, View, Task], object]] = {
    "timestamp": lambda s, v, t: _stamp(v.at),
    "gpu_name": lambda s, v, t: s.device.product.name,
    "gpu_bus_id": lambda s, v, t: s.device.pci_address,
    "gpu_serial": lambda s, v, t: s.device.serial,
    "gpu_uuid": lambda s, v, t: s.device.uuid,
    "pid": lambda s, v, t: t.pid,
    "process_name": lambda s, v, t: t.name,
    "used_gpu_memory": lambda s, v, t: s.device.held(t, v.at),
}
APP_ALIASES = {"name": "process_name", "used_memory": "used_gpu_memory"}
APP_UNITS = {"used_gpu_memory": "MiB"}


def gpus(view: View, fields: str, options: Options, only: Iterable[str] = ()) -> str:
    """Return the answer to ``--query-gpu=fields``. Raises UnknownField."""
    names = [name.strip() for name in fields.split(",")]
    known = [FIELDS.get(ALIASES.get(name, name)) for name in names]
    picked = [(name, field) for name, field in zip(names, known, strict=True) if field is not None]
    if len(picked) < len(names):
        raise UnknownField(_unknown(names[known.index(None)]))
    head = ", ".join(f"{name} [{field.unit}]" if field.unit else name for name, field in picked)
    rows = [
        ", ".join(_cell(field.get(seen, view), field.unit, options) for _, field in picked)
        for seen in chosen(view, only)
    ]
    return _lines(head, rows, options)


def apps(view: View, fields: str, options: Options, only: Iterable[str] = ()) -> str:
    """Return the answer to ``--query-compute-apps=fields``. Raises UnknownField."""
    names = [name.strip() for name in fields.split(",")]
    resolved = [APP_ALIASES.get(name, name) for name in names]
    if missing := [name for name, key in zip(names, resolved, strict=True) if key not in APP_FIELDS]:
        raise UnknownField(_unknown(missing[0]))
    head = ", ".join(f"{key} [{APP_UNITS[key]}]" if key in APP_UNITS else key for key in resolved)
    rows = [
        ", ".join(_cell(APP_FIELDS[key](seen, view, task), APP_UNITS.get(key, ""), options) for key in resolved)
        for seen in chosen(view, only)
        for task in view.tasks(seen)
    ]
    return _lines(head, rows, options)


def chosen(view: View, only: Iterable[str]) -> list[Seen]:
    """Return the devices that ``-i`` names by number, address or UUID; all where it names none."""
    wanted = list(only)
    return [
        seen
        for seen in view.present()
        if not wanted or {str(seen.number), seen.device.uuid, seen.device.pci_address} & set(wanted)
    ]


def _cell(value: object, unit: str, options: Options) -> str:
    plain = not unit or not options.units or value in (NOT_SUPPORTED, NOT_AVAILABLE)
    return str(value) if plain else f"{value} {unit}"


def _lines(head: str, rows: list[str], options: Options) -> str:
    return "".join(f"{line}\n" for line in ([head] if options.header else []) + rows)


def _stamp(at: datetime) -> str:
    return at.strftime("%Y/%m/%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"


def _unknown(name: str) -> str:
    return f'Field "{name}" is not a valid field to query.\n'


def recovery(seen: Seen) -> str:
    """Return the word for what would make a device well again."""
    if seen.device.trouble.stalled:
        return "Reboot"
    return "Reset" if seen.device.trouble.reset_required or seen.device.state.remap.pending else "None"
